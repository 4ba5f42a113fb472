#include "data/source/conversation.h"

#include <doctest/doctest.h>

#include "fakes.h"

namespace ftune {
namespace {

ChatRow Row(const std::string& json) {
  auto row = ReadChatRow(OrderedJson::parse(json), {"f.jsonl", 3}, TrainTurns::kAll);
  REQUIRE(row.ok());
  return *std::move(row);
}

std::vector<ConversationSample> Samples(const std::string& json, const ConversationOptions& options = {}) {
  auto samples = ConversationSamples(Row(json), ChatMl(), GreedyTokenizer(), options, {"f.jsonl", 3});
  REQUIRE(samples.ok());
  return *std::move(samples);
}

std::string Describe(const std::vector<RoleTokens>& roles) {
  std::string text;
  for (const RoleTokens& role : roles) {
    text += role.role + " " + std::to_string(role.trained) + "/" + std::to_string(role.tokens) + " ";
  }
  return text;
}

TEST_CASE("tokens are counted by the role in whose turn they stand") {
  const std::string row =
      R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Yes"},
          {"role": "user", "content": ""}, {"role": "assistant", "content": "No", "weight": 0}]})";
  // A turn: its role, its content, and <|im_start|>, <|im_end|> and two line ends.
  const auto samples = Samples(row);
  REQUIRE(samples.size() == 1);
  CHECK(Describe(samples[0].roles) == "user 0/18 assistant 4/31 ");
  CHECK(samples[0].sample.size() == 49);
  CHECK(samples[0].sample.trained_tokens() == 4);
  // The very first token is never predicted; the excluded turn's words and end are not either.
  CHECK(Describe(Samples(row, {.train_on_inputs = true})[0].roles) == "user 17/18 assistant 28/31 ");

  std::vector<RoleTokens> sum = samples[0].roles;
  AddRoleTokens({{"tool", 5, 1}, {"user", 2, 1}}, sum);
  CHECK(Describe(sum) == "user 1/20 assistant 4/31 tool 1/5 ");
}

}  // namespace
}  // namespace ftune
