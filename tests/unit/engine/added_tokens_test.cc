// New tokens: in the tokenizer's files, and as rows of embedding and head.
#include "engine/format/added_tokens.h"

#include <doctest/doctest.h>

#include "base/json_file.h"
#include "base/strings.h"
#include "data/tokenizer/tokenizer.h"
#include "engine/format/loaded_model.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/engine/tiny.h"

namespace ftune::testing {
namespace {

std::string Golden(const std::string& name) {
  return StrCat(FTUNE_SOURCE_DIR, "/tests/golden/models/", name);
}

std::vector<float> RowsOf(CpuBackend& backend, Model& model, const std::string& name) {
  const Parameter* p = model.Find(name);
  REQUIRE(p != nullptr);
  const Tensor values = backend.Allocate(p->value.rows(), p->value.cols(), Category::kBuffers);
  backend.Convert(Stream(), p->value, values);
  return {values.f32(), values.f32() + values.size()};
}

TEST_CASE("added tokens: the tokenizer knows them, and those it had stay") {
  const auto base = OpenModel(Golden("tiny-chat"));
  REQUIRE(base.ok());
  const auto before = LoadTokenizer(base->path);
  REQUIRE(before.ok());
  const int64_t size = (*before)->vocab_size();
  TempFolder folder;
  const auto added =
      WriteExtendedTokenizer(*base, {"<tool>", "<|im_end|>", "</tool>", "<tool>"}, folder.path());
  REQUIRE(added.ok());
  CHECK(added->texts == std::vector<std::string>{"<tool>", "</tool>"});
  CHECK(added->known == size);
  CHECK(added->rows() == size + 2);
  const auto after = LoadTokenizer(folder.path());
  REQUIRE(after.ok());
  CHECK((*after)->Encode("<tool>1</tool>").ids.front() == size);
  CHECK((*after)->Encode("<tool>1</tool>").ids.back() == size + 1);
  CHECK((*after)->IsSpecial(static_cast<int32_t>(size)));
  CHECK((*after)->TokenToId("<|im_end|>") == (*before)->TokenToId("<|im_end|>"));
  CHECK((*after)->Encode("hello there").ids == (*before)->Encode("hello there").ids);
  CHECK((*after)->chat_template() == (*before)->chat_template());
}

TEST_CASE("added tokens: new rows are the mean of the old, tied or not; padding rows that they take too") {
  for (const std::string name : {"llama", "smollm2"}) {
    CAPTURE(name);
    auto backend = MakeCpu();
    const auto plain = LoadModel(*backend, Stream(), Golden(name), {});
    REQUIRE(plain.ok());
    const int64_t vocab = plain->files.config.vocab_size;
    const int64_t known = vocab - 3;  // as if the last three rows were padding
    LoadModelOptions options;
    options.trainable = [](const std::string&) { return true; };
    options.growth = RowGrowth{.rows = vocab + 2, .known = known, .ids = {}};
    for (int64_t id = known; id < vocab + 2; ++id) options.growth->ids.push_back(static_cast<int32_t>(id));
    const auto grown = LoadModel(*backend, Stream(), Golden(name), options);
    REQUIRE_MESSAGE(grown.ok(), std::string(grown.status().message()));
    CHECK(grown->files.config.vocab_size == vocab + 2);
    for (const std::string tensor : {"model.embed_tokens.weight", "lm_head.weight"}) {
      if (plain->model->Find(tensor) == nullptr) continue;
      const std::vector<float> before = RowsOf(*backend, *plain->model, tensor);
      const std::vector<float> after = RowsOf(*backend, *grown->model, tensor);
      const int64_t cols = plain->files.config.hidden_size;
      REQUIRE(after.size() == static_cast<size_t>((vocab + 2) * cols));
      CHECK(std::equal(before.begin(), before.begin() + known * cols, after.begin()));
      for (int64_t c = 0; c < cols; ++c) {
        double sum = 0.0;
        for (int64_t row = 0; row < known; ++row) sum += before[row * cols + c];
        for (int64_t row = known; row < vocab + 2; ++row) {
          CHECK(after[row * cols + c] == doctest::Approx(sum / static_cast<double>(known)).epsilon(1e-6));
        }
      }
    }
  }
}

TEST_CASE("added tokens: a tokenizer larger than the embedding is an error") {
  auto backend = MakeCpu();
  LoadModelOptions options;
  options.growth = RowGrowth{.rows = 5000, .known = 4000, .ids = {4000}};
  const auto model = LoadModel(*backend, Stream(), Golden("llama"), options);
  CHECK(NotSaid(model.status(), "model.embed_tokens.weight", "at least 4000 rows") == "");
}

}  // namespace
}  // namespace ftune::testing
