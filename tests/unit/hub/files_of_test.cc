// Which files of a repository are taken.
#include <doctest/doctest.h>

#include "base/error.h"
#include "cmd/hub/dataset_files.h"
#include "cmd/hub/glob.h"
#include "cmd/hub/model_files.h"

namespace ftune {
namespace {

using Paths = std::vector<std::string>;

Paths Model(const Paths& paths, ModelParts parts = ModelParts::kAll) {
  absl::StatusOr<Paths> chosen = ChooseModelFiles(paths, parts, "o/n");
  if (!chosen.ok()) return {std::string(chosen.status().message())};
  std::sort(chosen->begin(), chosen->end());
  return *chosen;
}

TEST_CASE("a model's files, and never pickles or the same weights twice") {
  CHECK(Model({"config.json", "model.safetensors", "model.safetensors.index.json",
               "model-00001-of-00001.safetensors", "pytorch_model.bin", "README.md", "tokenizer.json",
               "onnx/model.onnx", "consolidated.safetensors"}) ==
        Paths{"config.json", "model.safetensors", "tokenizer.json"});
  CHECK(Model({"config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors",
               "model-00002-of-00002.safetensors", "consolidated-00001-of-00002.safetensors",
               "original/model.safetensors"}) == Paths{"config.json", "model-00001-of-00002.safetensors",
                                                       "model-00002-of-00002.safetensors",
                                                       "model.safetensors.index.json"});
  CHECK(Model({"adapter_config.json", "adapter_model.safetensors", "tokenizer.json", "training_args.bin"}) ==
        Paths{"adapter_config.json", "adapter_model.safetensors", "tokenizer.json"});
  CHECK(Model({"config.json", "model.safetensors", "tokenizer.model", "chat_template.jinja"},
              ModelParts::kTokenizer) == Paths{"chat_template.jinja", "tokenizer.model"});
  CHECK(Model({"qwen.tiktoken", "tokenizer_config.json", "more/x.tiktoken"}, ModelParts::kTokenizer) ==
        Paths{"qwen.tiktoken", "tokenizer_config.json"});
  CHECK(Model({"config.json", "model.safetensors", "tokenizer.json"}, ModelParts::kConfig) ==
        Paths{"config.json"});
  CHECK(Model({"config.json", "pytorch_model.bin"})[0].find("pickles") != std::string::npos);
  CHECK(Model({"x.Q4.gguf"})[0].find("o/n/x.Q4.gguf") != std::string::npos);
  CHECK(Model({})[0].find("no model in safetensors") != std::string::npos);
}

TEST_CASE("whether files of an unknown repository are all of a model") {
  const Paths tokenizer = {"tokenizer.json", "tokenizer_config.json"};
  const auto with = [&](Paths more) {
    more.insert(more.end(), tokenizer.begin(), tokenizer.end());
    return IsWholeModel(more, ModelParts::kAll);
  };
  CHECK(with({"config.json", "model.safetensors"}));
  CHECK_FALSE(with({"config.json"}));
  CHECK_FALSE(with({"model.safetensors"}));
  CHECK(IsWholeModel(tokenizer, ModelParts::kTokenizer));
  CHECK(IsWholeModel({"qwen.tiktoken", "tokenizer_config.json"}, ModelParts::kTokenizer));
  CHECK(IsWholeModel({"config.json"}, ModelParts::kConfig));
  CHECK_FALSE(IsWholeModel({"model.safetensors", "tokenizer.json"}, ModelParts::kConfig));
  CHECK_FALSE(IsWholeModel({"tokenizer.json"}, ModelParts::kTokenizer));
  CHECK_FALSE(IsWholeModel({"config.json", "model.safetensors"}, ModelParts::kAll));
  const Paths shards = {"config.json", "model.safetensors.index.json", "model-00001-of-00002.safetensors"};
  CHECK_FALSE(with(shards));
  Paths all = shards;
  all.push_back("model-00002-of-00002.safetensors");
  CHECK(with(all));
}

TEST_CASE("patterns of file names") {
  CHECK(MatchesGlob("data/*.jsonl", "data/a.jsonl"));
  CHECK_FALSE(MatchesGlob("data/*.jsonl", "data/b/a.jsonl"));
  CHECK_FALSE(MatchesGlob("*.jsonl", "data/a.jsonl"));
  CHECK(MatchesGlob("**/*.jsonl", "a.jsonl"));
  CHECK(MatchesGlob("**/*.jsonl", "x/y/a.jsonl"));
  CHECK(MatchesGlob("x/**", "x/y/z"));
  CHECK_FALSE(MatchesGlob("x/**", "y/x/z"));
  CHECK(MatchesGlob("t-[0-9]?.*", "t-1x.csv"));
  CHECK_FALSE(MatchesGlob("t-[!0-9]", "t-1"));
  CHECK_FALSE(MatchesGlob("", "a"));
  // Many stars cost no more than few.
  CHECK_FALSE(
      MatchesGlob("**/**/**/**/**/**/**/**/**/**/**/**/x", "a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/a/y"));
}

struct Data {
  Paths files, notes;
  std::string error;
};

Data Choose(const Paths& paths, DatasetChoice choice = {}, const std::string& readme = "") {
  choice.id = "o/n";
  const absl::StatusOr<DatasetFiles> chosen = ChooseDatasetFiles(paths, readme, choice);
  if (!chosen.ok()) return {.error = std::string(chosen.status().message())};
  return {chosen->files, chosen->notes, ""};
}

bool Has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST_CASE("splits by the names of files") {
  const Paths sharded = {"data/train-00001-of-00002.parquet", "data/train-00000-of-00002.parquet",
                         "data/odd_name-00000-of-00001.parquet", "train.csv"};
  CHECK(Choose(sharded).files ==
        Paths{"data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet"});
  CHECK(Choose(sharded, {.split = "odd_name"}).files == Paths{"data/odd_name-00000-of-00001.parquet"});
  const Paths names = {"my_train.jsonl", "trainer.jsonl", "dev-2.jsonl", "x/test.jsonl", "contest.jsonl"};
  CHECK(Choose(names).files == Paths{"my_train.jsonl"});
  CHECK(Choose(names, {.split = "validation"}).files == Paths{"dev-2.jsonl"});
  CHECK(Choose(names, {.split = "test"}).files == Paths{"x/test.jsonl"});
  CHECK(Has(Choose(names, {.split = "dev"}).error, "one of test, train, validation"));
  const Paths folders = {"train/a.jsonl", "train/b.jsonl", "test-2/a.jsonl", "other/a.jsonl"};
  CHECK(Choose(folders).files == Paths{"train/a.jsonl", "train/b.jsonl"});
  CHECK(Choose(folders, {.split = "test"}).files == Paths{"test-2/a.jsonl"});
  // Folders' names come before those of files.
  CHECK(Choose({"train/eval.jsonl", "train.jsonl", "test/train.jsonl"}).files == Paths{"train/eval.jsonl"});
  CHECK(Choose({".x/train/a.jsonl", "__x/train.jsonl", "b/.train.jsonl", "a.jsonl"}).files ==
        Paths{"a.jsonl"});
  CHECK(Choose({"b.jsonl.gz", "a.jsonl", "README.md", ".git/x.json", "dataset_infos.json"}).files ==
        Paths{"a.jsonl", "b.jsonl.gz"});
  CHECK(Has(Choose({"README.md", "x.py"}).error, "no files of rows"));
  CHECK(Choose({"x/en/train.csv", "x/de/train.csv"}).files.size() == 2);
}

TEST_CASE("without a split: train in training data, the only one in others") {
  CHECK(Choose({"test.csv"}).files == Paths{"test.csv"});
  CHECK(Choose({"test.csv"}, {.train_is_meant = false}).files == Paths{"test.csv"});
  CHECK(Has(Choose({"test.csv", "train.csv"}, {.train_is_meant = false}).error, "several splits"));
  CHECK(Has(Choose({"test.csv", "dev.csv"}).error, "'train'"));
}

TEST_CASE("a split is of one kind of file") {
  const Data data = Choose({"a.parquet", "b.jsonl", "c.txt"});
  CHECK(data.files == Paths{"a.parquet"});
  CHECK(data.notes.size() == 2);
  CHECK(Choose({"a.parquet", "b.jsonl", "c.jsonl"}).files == Paths{"b.jsonl", "c.jsonl"});
}

TEST_CASE("subsets and splits as the README has them") {
  const Paths paths = {"en/train-1.jsonl", "en/x/t.jsonl", "de/train.jsonl", "de/test.jsonl", "all.csv"};
  const std::string readme =
      "---\nlicense: mit\nconfigs:\n- config_name: en\n  default: true\n  data_files:\n  - split: train\n    "
      "path:\n"
      "    - \"en/*.jsonl\"\n    - ./en/**/t.jsonl\n  - split: none\n    path: nothing/*\n- config_name: de\n"
      "  data_dir: de\n- config_name: csv\n  data_files: \"*.csv\"\n---\nconfigs: not these\n";
  CHECK(Choose(paths, {}, readme).files == Paths{"en/train-1.jsonl", "en/x/t.jsonl"});
  CHECK(Choose(paths, {.subset = "de", .split = "test"}, readme).files == Paths{"de/test.jsonl"});
  CHECK(Choose(paths, {.subset = "de"}, readme).files == Paths{"de/train.jsonl"});
  CHECK(Choose(paths, {.subset = "csv"}, readme).files == Paths{"all.csv"});
  CHECK(Has(Choose(paths, {.subset = "fr"}, readme).error, "one of en, de, csv"));
  CHECK(Has(Choose(paths, {.split = "none"}, readme).error, "no file of the dataset matches"));
  const std::string listed =
      "---\nconfigs:\n- config_name: default\n  data_files:\n    train: [all.csv, gone.csv]\n    hidden: "
      "[.x/*.jsonl, y/*.jsonl]\n---\n";
  const Paths hidden = {".x/a.jsonl", "y/.b.jsonl", "all.csv"};
  CHECK(Has(Choose(hidden, {}, listed).error, "'gone.csv'"));
  CHECK(Choose(hidden, {.split = "hidden"}, listed).files == Paths{".x/a.jsonl"});
  CHECK(Choose(paths, {.subset = "de"}).files == Paths{"de/train.jsonl"});
  CHECK(Has(Choose(paths, {.subset = "fr"}).error, "'fr'"));
  const std::string two =
      "---\nconfigs:\n- config_name: a\n  data_files: a\n- config_name: b\n  data_files: b\n---\n";
  CHECK(Has(Choose(paths, {}, two).error, "several subsets"));
  CHECK(Has(Choose(paths, {}, "---\nconfigs: [\n---\n").error, "README.md"));
  for (const char* odd :
       {"", "---", "---\n", "---\n---\n", "---\nx\n---\n", "---\nconfigs: 3\n---\n",
        "---\nconfigs: [3, {data_files: [3, {}, {path: x}]}, {data_files: {train: {}}}]\n---\n"}) {
    CAPTURE(odd);
    Choose(paths, {}, odd);  // whatever comes, it is an answer
  }
}

}  // namespace
}  // namespace ftune
