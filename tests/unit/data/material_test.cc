// The whole way from real files to samples, with real tokenizers and templates.
#include <doctest/doctest.h>

#include <chrono>
#include <cstdio>
#include <fstream>

#include "base/strings.h"
#include "data/loader/data_plan.h"
#include "data/template/load_chat_template.h"
#include "files.h"
#include "load_dataset.h"

namespace ftune {
namespace {

struct Model {
  std::unique_ptr<Tokenizer> tokenizer;
  std::unique_ptr<ChatTemplate> chat_template;
};

// Nothing where the material is absent.
std::optional<Model> LoadModel(const std::string& tokenizer, const std::string& chat_template) {
  const auto folder = Material("tokenizers/" + tokenizer);
  const auto jinja = Material("chat_templates/jinja/model_official/" + chat_template);
  if (folder.empty() || jinja.empty()) return std::nullopt;
  auto loaded = LoadTokenizer(folder);
  INFO(std::string(loaded.status().message()));
  REQUIRE(loaded.ok());
  auto parsed = ReadChatTemplate(jinja, (*loaded)->special());
  INFO(std::string(parsed.status().message()));
  REQUIRE(parsed.ok());
  return Model{*std::move(loaded), *std::move(parsed)};
}

std::string Trained(const Sample& sample, const Tokenizer& tokenizer) {
  std::vector<int32_t> ids;
  for (int64_t i = 0; i < sample.size(); ++i) {
    if (sample.trained[i]) ids.push_back(sample.ids[i]);
  }
  return tokenizer.Decode(ids, false);
}

std::vector<OrderedJson> Rows(const std::filesystem::path& path) {
  std::vector<OrderedJson> rows;
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) rows.push_back(OrderedJson::parse(line));
  return rows;
}

// Loads, and says how fast.
Dataset Load(const std::filesystem::path& path, const Model& model, const SampleOptions& options = {}) {
  const auto start = std::chrono::steady_clock::now();
  auto dataset = LoadDataset({{path.string()}}, *model.tokenizer, model.chat_template.get(), options);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  INFO(std::string(dataset.status().message()));
  REQUIRE(dataset.ok());
  std::printf("%s: %zu samples, %.0f tokens in %.3f s: %.2f million tokens/s\n", path.filename().c_str(),
              dataset->samples.size(), static_cast<double>(dataset->tokens()), seconds.count(),
              static_cast<double>(dataset->tokens()) / seconds.count() / 1e6);
  return *std::move(dataset);
}

// What was trained is exactly each answer and `end`.
void CheckAnswers(const Dataset& dataset, const std::vector<std::string>& answers, const std::string& end,
                  const Tokenizer& tokenizer) {
  REQUIRE(dataset.samples.size() == answers.size());
  CHECK(dataset.report.dropped.empty());
  CHECK(dataset.report.audit.bos_samples[2] == 0);
  size_t equal = 0;
  for (size_t i = 0; i < answers.size(); ++i) {
    const std::string trained = Trained(CopySample(dataset.sample(i)), tokenizer);
    equal += trained == answers[i] + end;
    if (trained != answers[i] + end) {
      INFO("row ", i, ": ", trained, " | ", answers[i]);
      CHECK(equal == i + 1);
      break;
    }
  }
  CHECK(equal == answers.size());
}

TEST_CASE("the quickstart's conversations: exactly the answers are trained") {
  const std::filesystem::path path = SourceFile("recipes/data/ftune-faq.jsonl");
  std::vector<std::string> answers;
  for (const OrderedJson& row : Rows(path)) answers.push_back(row["messages"].back()["content"]);
  REQUIRE(answers.size() >= 180);
  const auto qwen = LoadModel("npm_big/qwen3", "Qwen-Qwen2.5-7B-Instruct.jinja");
  if (qwen) CheckAnswers(Load(path, *qwen), answers, "<|im_end|>", *qwen->tokenizer);
  const auto llama = LoadModel("npm_big/llama3", "meta-llama-Llama-3.1-8B-Instruct.jinja");
  if (llama) CheckAnswers(Load(path, *llama), answers, "<|eot_id|>", *llama->tokenizer);
  const auto phi = LoadModel("hf_json/phi-3-mini", "microsoft-Phi-3.5-mini-instruct.jinja");
  if (phi) CheckAnswers(Load(path, *phi), answers, "<|end|>", *phi->tokenizer);
}

TEST_CASE("GSM8K as conversations and as prompt and completion") {
  const auto path = Material("datasets/gsm8k/train.jsonl");
  const auto model = LoadModel("npm_big/qwen3", "Qwen-Qwen2.5-7B-Instruct.jinja");
  if (path.empty() || !model) return;
  // Its own keys show no format.
  const auto refused = LoadDataset({{path.string()}}, *model->tokenizer, nullptr, {});
  REQUIRE_FALSE(refused.ok());
  CHECK(std::string(refused.status().message()).find("the keys question, answer") != std::string::npos);

  std::string chats, prompts;
  std::vector<std::string> answers;
  for (const OrderedJson& row : Rows(path)) {
    answers.push_back(row["answer"]);
    const OrderedJson chat = {{"messages",
                               {{{"role", "user"}, {"content", row["question"]}},
                                {{"role", "assistant"}, {"content", row["answer"]}}}}};
    chats += chat.dump() + "\n";
    prompts += OrderedJson{{"prompt", row["question"]}, {"completion", row["answer"]}}.dump() + "\n";
  }
  const TempFolder folder;
  const Dataset dataset = Load(folder.Write("gsm8k_chats.jsonl", chats), *model);
  CheckAnswers(dataset, answers, "<|im_end|>", *model->tokenizer);

  auto shared = std::make_shared<const Dataset>(dataset);
  const auto plan = DataPlan::Create(shared, {.sequence_len = 2048, .num_epochs = 2});
  REQUIRE(plan.ok());
  for (const DataPlan::Epoch& epoch : plan->epochs()) {
    CHECK(epoch.fill() > 0.95);
    CHECK(epoch.samples == static_cast<int64_t>(answers.size()));
  }
  int64_t trained = 0;
  for (int64_t step = 0; step < plan->epochs()[0].steps; ++step) {
    for (int64_t m = 0; m < plan->MicroBatches(step); ++m)
      trained += plan->MicroBatch(step, m).trained_tokens;
  }
  CHECK(trained == dataset.trained_tokens());

  const Dataset completions = Load(folder.Write("gsm8k_prompts.jsonl", prompts), *model);
  CHECK(completions.samples.size() == answers.size());
}

TEST_CASE("text: rows and a whole book") {
  const auto rows = Material("datasets/mlx/lora_train.jsonl");
  const auto book = Material("datasets/text/botchan.txt");
  const auto model = LoadModel("npm_big/llama3", "meta-llama-Llama-3.1-8B-Instruct.jinja");
  if (rows.empty() || book.empty() || !model) return;
  const Dataset texts = Load(rows, *model);
  REQUIRE(texts.samples.size() == 1000);
  const std::vector<OrderedJson> expected = Rows(rows);
  size_t equal = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    equal += Trained(CopySample(texts.sample(i)), *model->tokenizer) ==
             expected[i]["text"].get<std::string>() + model->tokenizer->special().eos->text;
  }
  CHECK(equal == 1000);

  // This tokenizer adds a BOS, the one above does not.
  const auto with_bos = LoadTokenizer(Material("tokenizers/hf_json/llama2"));
  REQUIRE(with_bos.ok());
  const auto begun = LoadDataset({{rows.string()}}, **with_bos, nullptr, {});
  REQUIRE(begun.ok());
  const SpecialTokens& special = (*with_bos)->special();
  for (int64_t i = 0; i < begun->size(); ++i) {
    const Sample sample = CopySample(begun->sample(i));
    CHECK(sample.ids.front() == special.bos->id);
    CHECK(sample.ids[1] != special.bos->id);
    CHECK(sample.ids.back() == special.eos->id);
  }

  // Splitting the book loses no target.
  const Dataset whole = Load(book, *model, {.sequence_len = 1 << 20});
  REQUIRE(whole.samples.size() == 1);
  const Dataset pieces = Load(book, *model, {.sequence_len = 512});
  CHECK(pieces.samples.size() > 100);
  CHECK(pieces.report.split_rows == 1);
  CHECK(pieces.trained_tokens() == whole.trained_tokens());
}

}  // namespace
}  // namespace ftune
