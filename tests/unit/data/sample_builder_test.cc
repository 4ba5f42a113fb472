#include "data/source/sample_builder.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "fakes.h"

namespace ftune {
namespace {

constexpr char kTwoTurns[] =
    R"({"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Yes"},
    {"role": "user", "content": "Yes"}, {"role": "assistant", "content": "No"}]})";

absl::StatusOr<BuiltRow> Build(const Tokenizer& tokenizer, RowFormat format, const std::string& json,
                               const SampleOptions& options = {}) {
  const ChatMl chat_template;
  return SampleBuilder(tokenizer, &chat_template, options)
      .Build(OrderedJson::parse(json), format, {"f.jsonl", 3});
}

// The trained text of the row's only sample.
std::string Trained(const std::string& json, const SampleOptions& options = {}) {
  const GreedyTokenizer tokenizer;
  const auto built = Build(tokenizer, RowFormat::kMessages, json, options);
  REQUIRE(built.ok());
  REQUIRE(built->samples.size() == 1);
  return TrainedText(built->samples[0], tokenizer);
}

void CheckRefused(RowFormat format, const std::string& json, const std::string& text,
                  const SampleOptions& options = {}) {
  const auto built = Build(GreedyTokenizer(), format, json, options);
  REQUIRE_FALSE(built.ok());
  const std::string message(built.status().message());
  INFO(message);
  CHECK(message.starts_with("f.jsonl:3: error: "));
  CHECK(ExitCodeOf(built.status()) == 4);
  CHECK(message.find(text) != std::string::npos);
}

TEST_CASE("a conversation: the assistant's words and its end of turn, not the line end after it") {
  CHECK(Trained(kTwoTurns) == "Yes<|im_end|>No<|im_end|>");
  CHECK(Trained(kTwoTurns, {.train_on_turns = TrainTurns::kLast}) == "No<|im_end|>");
  CHECK(Trained(kTwoTurns, {.train_on_inputs = true}) ==
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nYes<|im_end|>\n"
        "<|im_start|>user\nYes<|im_end|>\n<|im_start|>assistant\nNo<|im_end|>\n");
}

TEST_CASE("a turn that the row excludes is not trained, not even with the inputs") {
  const std::string row = R"({"messages": [{"role": "user", "content": "hi"},
      {"role": "assistant", "content": "Bad", "weight": 0}, {"role": "assistant", "content": "Good"}]})";
  CHECK(Trained(row) == "Good<|im_end|>");
  CHECK(Trained(row, {.train_on_inputs = true}) ==
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n\n<|im_start|>assistant\nGood<|im_end|>\n");
}

TEST_CASE("tokens across the begin and the end of an answer") {
  // The header's line end and the answer's first one make one token: it is not the answer's.
  const GreedyTokenizer lines({"\n\n", "s\n"});
  const auto built =
      Build(lines, RowFormat::kMessages, R"({"messages": [{"role": "assistant", "content": "\nYes\n"}]})");
  REQUIRE(built.ok());
  CHECK(TrainedText(built->samples.at(0), lines) == "Yes\n<|im_end|>");
}

TEST_CASE("a document: BOS where the tokenizer adds one, EOS at the end, all trained") {
  const GreedyTokenizer plain;
  const GreedyTokenizer with_bos({}, true);
  const auto a = Build(plain, RowFormat::kText, R"({"text": "ab"})");
  REQUIRE(a.ok());
  CHECK(plain.Decode(a->samples.at(0).ids, false) == "ab</s>");
  const auto b = Build(with_bos, RowFormat::kText, R"({"text": "ab"})");
  REQUIRE(b.ok());
  CHECK(with_bos.Decode(b->samples.at(0).ids, false) == "<s>ab</s>");
  CHECK(b->samples[0].trained == std::vector<uint8_t>(4, 1));
  CHECK(b->audit.bos_samples[2] == 0);
  // What the text brings along is not added again.
  const auto c = Build(with_bos, RowFormat::kText, R"({"text": "<s>ab</s>"})");
  REQUIRE(c.ok());
  CHECK(with_bos.Decode(c->samples.at(0).ids, false) == "<s>ab</s>");
  CHECK(c->audit.mended_bos == 1);
}

TEST_CASE("prompt and completion") {
  const GreedyTokenizer tokenizer({" yes"}, true);
  const auto built =
      Build(tokenizer, RowFormat::kPromptCompletion, R"({"prompt": "ok?", "completion": " yes!"})");
  REQUIRE(built.ok());
  CHECK(tokenizer.Decode(built->samples.at(0).ids, false) == "<s>ok? yes!</s>");
  CHECK(TrainedText(built->samples[0], tokenizer) == " yes!</s>");
  // The prompt ends with the space that the word's token takes in.
  const auto spaced =
      Build(tokenizer, RowFormat::kPromptCompletion, R"({"prompt": "ok? ", "completion": "yes!"})");
  REQUIRE(spaced.ok());
  CHECK(TrainedText(spaced->samples.at(0), tokenizer) == " yes!</s>");
  const auto inputs = Build(tokenizer, RowFormat::kPromptCompletion,
                            R"({"prompt": "ok?", "completion": "y"})", {.train_on_inputs = true});
  REQUIRE(inputs.ok());
  CHECK(TrainedText(inputs->samples.at(0), tokenizer) == "ok?y</s>");
}

TEST_CASE("tokens with labels") {
  const GreedyTokenizer tokenizer;
  const auto all = Build(tokenizer, RowFormat::kTokens, R"({"input_ids": [5, 6, 7]})");
  REQUIRE(all.ok());
  CHECK(all->samples.at(0).ids == std::vector<int32_t>{5, 6, 7});
  CHECK(all->samples[0].trained == std::vector<uint8_t>{1, 1, 1});
  const auto some =
      Build(tokenizer, RowFormat::kTokens, R"({"input_ids": [5, 6, 7], "labels": [-100, -100, 7]})");
  REQUIRE(some.ok());
  CHECK(some->samples.at(0).trained == std::vector<uint8_t>{0, 0, 1});

  CheckRefused(RowFormat::kTokens, R"({"ids": [1]})", "the keys ids");
  CheckRefused(RowFormat::kTokens, R"({"input_ids": "1"})", "expected a list");
  CheckRefused(RowFormat::kTokens, R"({"input_ids": [1, 260]})",
               "input_ids[1]: found 260, expected an integer from 0 to 259");
  CheckRefused(RowFormat::kTokens, R"({"input_ids": [-1]})", "found -1");
  CheckRefused(RowFormat::kTokens, R"({"input_ids": [1.5]})", "found 1.5");
  CheckRefused(RowFormat::kTokens, R"({"input_ids": [18446744073709551615]})", "input_ids[0]");
  CheckRefused(RowFormat::kTokens, R"({"input_ids": [1, 2], "labels": [1]})", "as many as input_ids");
  CheckRefused(RowFormat::kTokens, R"({"input_ids": [1, 2], "labels": [-100, 3]})", "labels are not shifted");
}

TEST_CASE("wrong rows") {
  CheckRefused(RowFormat::kText, R"({"content": "x"})", "the keys content");
  CheckRefused(RowFormat::kText, R"({"text": ["x"]})", "expected a string");
  CheckRefused(RowFormat::kPromptCompletion, R"({"prompt": "x"})", "no completion");
  CheckRefused(RowFormat::kPromptCompletion, R"({"prompt": [], "completion": "x"})",
               "two strings, or two lists of messages");
  CheckRefused(RowFormat::kMessages, R"({"messages": [{"role": "assistant", "content": "boom"}]})",
               "no boom please");
  CheckRefused(RowFormat::kText, R"({"text": "a\u0000"})", "text: a NUL character at byte 2");
  CheckRefused(RowFormat::kAlpaca, R"({"instruction": ""})", "no output");
  CheckRefused(RowFormat::kAlpaca, R"({"instruction": "", "output": "", "history": [["q"]]})", "history[0]");
  CheckRefused(RowFormat::kSegments, R"({"segments": [{"text": "x"}]})", "segments[0]: found the keys text");
  CheckRefused(RowFormat::kSegments, R"({"segments": [{"text": "x", "label": "yes"}]})", "segments[0].label");
  CheckRefused(RowFormat::kTokens, R"({"input_ids": [5, 6], "attention_mask": [1, 0]})", "attention_mask[1]");
  CheckRefused(RowFormat::kTokens, R"({"input_ids": [5, 6], "attention_mask": [1]})", "as many as input_ids");

  const GreedyTokenizer tokenizer;
  const auto built =
      SampleBuilder(tokenizer, nullptr, {}).Build(OrderedJson::parse(kTwoTurns), RowFormat::kMessages, {});
  REQUIRE_FALSE(built.ok());
  CHECK(std::string(built.status().message()).find("data.chat_template") != std::string::npos);
}

TEST_CASE("too long: split keeps every target once") {
  const GreedyTokenizer tokenizer;
  const std::string row = R"({"text": "0123456789"})";  // 11 tokens with EOS
  const auto split = Build(tokenizer, RowFormat::kText, row, {.sequence_len = 4});
  REQUIRE(split.ok());
  std::vector<std::string> texts;
  int64_t trained = 0;
  for (const Sample& sample : split->samples) {
    texts.push_back(tokenizer.Decode(sample.ids, false));
    trained += sample.trained_tokens();
  }
  CHECK(texts == std::vector<std::string>{"0123", "3456", "6789", "9</s>"});
  CHECK(trained == 10);
  CHECK(split->tokens == 11);
  const auto fits = Build(tokenizer, RowFormat::kText, row,
                          {.sequence_len = 11, .excess_length_strategy = ExcessTokens::kError});
  REQUIRE(fits.ok());
  CHECK(fits->samples.size() == 1);
}

TEST_CASE("too long: truncate, drop, error, and what auto means") {
  const GreedyTokenizer tokenizer;
  const std::string text = R"({"text": "0123456789"})";
  const auto cut = Build(tokenizer, RowFormat::kText, text,
                         {.sequence_len = 4, .excess_length_strategy = ExcessTokens::kTruncate});
  REQUIRE(cut.ok());
  CHECK(cut->truncated);
  CHECK(tokenizer.Decode(cut->samples.at(0).ids, false) == "0123");
  CHECK(cut->samples[0].trained.size() == 4);

  const auto dropped = Build(tokenizer, RowFormat::kMessages, kTwoTurns, {.sequence_len = 20});
  REQUIRE(dropped.ok());
  CHECK(dropped->samples.empty());
  CHECK(dropped->dropped.at(0).reason == DropReason::kTooLong);

  const auto no_answer = Build(tokenizer, RowFormat::kMessages, kTwoTurns,
                               {.sequence_len = 5, .excess_length_strategy = ExcessTokens::kTruncate});
  REQUIRE(no_answer.ok());
  CHECK(no_answer->dropped.at(0).reason == DropReason::kAnswerTruncated);
  CHECK(no_answer->samples.empty());

  // Pieces of a conversation in which the assistant says nothing are left out.
  const auto pieces = Build(tokenizer, RowFormat::kMessages, kTwoTurns,
                            {.sequence_len = 5, .excess_length_strategy = ExcessTokens::kSplit});
  REQUIRE(pieces.ok());
  int64_t trained = 0;
  for (const Sample& sample : pieces->samples) {
    CHECK(sample.size() <= 5);
    CHECK(sample.trained_tokens() > 0);
    trained += sample.trained_tokens();
  }
  CHECK(trained == 7);  // Yes<|im_end|>No<|im_end|>

  CheckRefused(RowFormat::kText, text, "found 11 tokens, expected at most data.sequence_len, 4",
               {.sequence_len = 4, .excess_length_strategy = ExcessTokens::kError});
}

TEST_CASE("rows without a token to learn from are dropped") {
  const GreedyTokenizer tokenizer;
  const auto flagged = Build(tokenizer, RowFormat::kMessages,
                             R"({"messages": [{"role": "assistant", "content": "a", "weight": 0}]})");
  REQUIRE(flagged.ok());
  CHECK(flagged->dropped.at(0).reason == DropReason::kNothingTrained);
  const auto empty = Build(tokenizer, RowFormat::kText, R"({"text": ""})");
  REQUIRE(empty.ok());
  CHECK(empty->dropped.at(0).reason == DropReason::kNothingTrained);
  // The first token is never predicted, so one trained there is none.
  const auto first = Build(tokenizer, RowFormat::kTokens, R"({"input_ids": [1, 2], "labels": [1, -100]})");
  REQUIRE(first.ok());
  CHECK(first->dropped.at(0).reason == DropReason::kNothingTrained);
}

}  // namespace
}  // namespace ftune
