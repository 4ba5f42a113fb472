#include "data/source/row_shape.h"

#include <doctest/doctest.h>

#include "base/error.h"
#include "data/source/sample_builder.h"
#include "fakes.h"

namespace ftune {
namespace {

const RowPlace kPlace{"f.jsonl", 1};

absl::StatusOr<RowFormat> Choose(const char* json, RowFormat named = RowFormat::kAuto,
                                 const RowMapping& mapping = {}) {
  return ChooseRowFormat(OrderedJson::parse(json), named, mapping, kPlace);
}

// The message of a row that is refused.
std::string Refused(const char* json, const RowMapping& mapping = {}) {
  const auto format = Choose(json, RowFormat::kAuto, mapping);
  REQUIRE_FALSE(format.ok());
  CHECK(ExitCodeOf(format.status()) == 4);
  return std::string(format.status().message());
}

bool Has(const std::string& text, const std::string& part) {
  INFO(text);
  return text.find(part) != std::string::npos;
}

TEST_CASE("shapes are told by their columns") {
  CHECK(*Choose(R"({"text": "", "messages": []})") == RowFormat::kMessages);
  CHECK(*Choose(R"({"prompt": "", "completion": ""})") == RowFormat::kPromptCompletion);
  CHECK(*Choose(R"({"text": ""})") == RowFormat::kText);
  CHECK(*Choose(R"({"input_ids": []})") == RowFormat::kTokens);
  CHECK(*Choose(R"({"conversations": []})") == RowFormat::kShareGpt);
  CHECK(*Choose(R"({"instruction": "", "input": "", "output": "", "text": ""})") == RowFormat::kAlpaca);
  CHECK(*Choose(R"({"segments": []})") == RowFormat::kSegments);
  CHECK(*Choose(R"({"messages": []})", RowFormat::kText) == RowFormat::kText);
}

TEST_CASE("what the recipe maps is meant, whatever else the row has") {
  CHECK(*Choose(R"({"text": "", "messages": [], "q": "", "a": ""})", RowFormat::kAuto,
                {.columns = {{"instruction", "q"}, {"output", "a"}}}) == RowFormat::kAlpaca);
  CHECK(*Choose(R"({"chosen": [], "rejected": []})", RowFormat::kAuto,
                {.columns = {{"messages", "chosen"}}}) == RowFormat::kMessages);
  const std::string absent = Refused(R"({"text": ""})", {.columns = {{"text", "txt"}}});
  CHECK(Has(absent, "f.jsonl:1: error: columns.text: the first row has no txt; found the keys text"));
  // Keys of messages are not columns of the row.
  CHECK(*Choose(R"({"messages": []})", RowFormat::kAuto, {.columns = {{"role", "who"}}}) ==
        RowFormat::kMessages);
}

TEST_CASE("rows that are something else are refused by name, with what to do") {
  CHECK(Has(Refused(R"({"conversations": [], "chosen": {}, "rejected": {}})"), "preference data"));
  CHECK(Has(Refused(R"({"chosen": "", "rejected": ""})"), "{messages: chosen}"));
  CHECK(Has(Refused(R"({"question": "", "response_j": "", "response_k": ""})"), "output: response_j"));
  CHECK(Has(Refused(R"({"message_tree_id": "", "prompt": {"replies": []}})"), "trees of messages"));
  CHECK(
      Has(Refused(R"({"question": "", "answer": ""})"), "columns: {instruction: question, output: answer}"));
  CHECK(Has(Refused(R"({"prompt": "", "label": ""})"), "the keys prompt, label"));
  CHECK(Has(Refused("{}"), "without keys"));
}

Sample Build(RowFormat format, const char* json, const Tokenizer& tokenizer,
             const ChatTemplate* chat_template, const SampleOptions& options = {},
             const RowMapping& mapping = {}) {
  const auto built = SampleBuilder(tokenizer, chat_template, options)
                         .Build(OrderedJson::parse(json), format, kPlace, mapping);
  REQUIRE_MESSAGE(built.ok(), built.status().message());
  REQUIRE(built->samples.size() == 1);
  return built->samples[0];
}

TEST_CASE("Alpaca by the chat template, with system prompt and history") {
  const GreedyTokenizer tokenizer;
  const ChatMl chat_template;
  const Sample sample = Build(RowFormat::kAlpaca,
                              R"({"system": "s", "instruction": "do", "input": "it", "output": "done",
                                  "history": [["q", "a"]]})",
                              tokenizer, &chat_template);
  CHECK(tokenizer.Decode(sample.ids, false) ==
        "<|im_start|>system\ns<|im_end|>\n<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\na<|im_end|>\n"
        "<|im_start|>user\ndo\nit<|im_end|>\n<|im_start|>assistant\ndone<|im_end|>\n");
  CHECK(TrainedText(sample, tokenizer) == "a<|im_end|>done<|im_end|>");
}

TEST_CASE("Alpaca's own prompt, where the model has no template") {
  const GreedyTokenizer tokenizer;
  const Sample sample = Build(RowFormat::kAlpaca, R"({"instruction": "do", "input": "it", "output": "done"})",
                              tokenizer, nullptr);
  CHECK(tokenizer.Decode(sample.ids, false) ==
        "Below is an instruction that describes a task, paired with an input that provides further context. "
        "Write a response that appropriately completes the request.\n\n### Instruction:\ndo\n\n### Input:\nit"
        "\n\n### Response:\ndone</s>");
  CHECK(TrainedText(sample, tokenizer) == "done</s>");
  const Sample bare = Build(
      RowFormat::kAlpaca, R"({"instruction": "do", "input": null, "output": "ok", "history": [["q", "a"]]})",
      tokenizer, nullptr);
  CHECK(
      tokenizer.Decode(bare.ids, false) ==
      "Below is an instruction that describes a task. Write a response that appropriately completes the "
      "request.\n\n### Instruction:\nq\n\n### Response:\na\n\n### Instruction:\ndo\n\n### Response:\nok</s>");
}

TEST_CASE("prompt and completion as lists of messages: the completion alone is learned") {
  const GreedyTokenizer tokenizer;
  const ChatMl chat_template;
  const Sample sample =
      Build(RowFormat::kPromptCompletion,
            R"({"prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"},
                                  {"role": "user", "content": "r"}],
                                  "completion": [{"role": "assistant", "content": "b"}]})",
            tokenizer, &chat_template);
  CHECK(TrainedText(sample, tokenizer) == "b<|im_end|>");
}

TEST_CASE("segments: one text, tokens that begin in what is learned; lists may be JSON text") {
  const GreedyTokenizer tokenizer({"bc"});
  const char* row = R"({"segments": [{"text": "<s>a", "label": false}, {"text": "b", "label": true},
      {"text": "c</s>", "label": 1}, {"text": "bc", "label": 0}]})";
  const Sample sample = Build(RowFormat::kSegments, row, tokenizer, nullptr);
  CHECK(tokenizer.Decode(sample.ids, false) == "<s>abc</s>bc");
  CHECK(TrainedText(sample, tokenizer) == "bc</s>");
  const Sample text =
      Build(RowFormat::kTokens, R"({"input_ids": "[5, 6]", "labels": "[-100, 6]"})", tokenizer, nullptr);
  CHECK(text.trained == std::vector<uint8_t>{0, 1});
}

}  // namespace
}  // namespace ftune
