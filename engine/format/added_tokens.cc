#include "engine/format/added_tokens.h"

#include <algorithm>
#include <deque>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <utility>

#include "base/atomic_file.h"
#include "base/convert.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/json_file.h"
#include "base/strings.h"
#include "engine/format/file_names.h"
#include "engine/format/hf_writer.h"

namespace ftune {
namespace {

using nlohmann::json;

constexpr char kTokenizerFile[] = "tokenizer.json";

// Every token of tokenizer.json, and the id after the last.
struct Known {
  std::set<std::string> texts;
  int64_t size = 0;

  void Add(const std::string& text, int64_t id) {
    texts.insert(text);
    size = std::max(size, id + 1);
  }
};

absl::StatusOr<Known> KnownTokens(const json& tokenizer, const std::string& file) {
  Known known;
  const bool has_model =
      tokenizer.is_object() && tokenizer.contains("model") && tokenizer["model"].is_object();
  const json vocabulary = has_model ? tokenizer["model"].value("vocab", json()) : json();
  if (!vocabulary.is_object()) {
    return DataError({.file = file,
                      .key = "model.vocab",
                      .message = "tokens can only be added to a BPE tokenizer",
                      .found = Excerpt(vocabulary),
                      .expected = "tokens with their ids"});
  }
  for (const auto& [text, id] : vocabulary.items()) {
    if (id.is_number_integer()) known.Add(text, id.get<int64_t>());
  }
  const auto added = tokenizer.find("added_tokens");
  if (added == tokenizer.end() || added->is_null()) return known;
  for (const json& token : *added) {
    const bool sound = token.is_object() && token.contains("content") && token["content"].is_string() &&
                       token.contains("id") && token["id"].is_number_integer();
    if (!sound) {
      return DataError({.file = file,
                        .key = "added_tokens",
                        .found = Excerpt(token),
                        .expected = "objects with content, a text, and id, an integer"});
    }
    known.Add(token["content"], token["id"]);
  }
  return known;
}

json TokenFields(const std::string& text) {
  return {{"content", text}, {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", false},  {"special", true}};
}

class GrownWeights final : public WeightSource {
 public:
  explicit GrownWeights(std::unique_ptr<WeightSource> weights)
      : weights_(std::move(weights)), tensors_(weights_->tensors()) {}

  absl::Status Grow(const std::string& name, const RowGrowth& growth) {
    const auto tensor =
        std::find_if(tensors_.begin(), tensors_.end(), [&](const SourceTensor& t) { return t.name == name; });
    if (tensor == tensors_.end()) return absl::OkStatus();  // who loads it will say that it is missing
    if (!IsFloat(tensor->dtype) || tensor->shape.size() != 2 || tensor->shape[0] < growth.known) {
      return DataError({.file = tensor->file,
                        .key = name,
                        .message = "tokens cannot be added to this tensor",
                        .found = StrCat(Name(tensor->dtype), " [", StrJoin(tensor->shape, ", "), "]"),
                        .expected = StrCat("a matrix of at least ", growth.known,
                                           " rows, one for each token of the tokenizer")});
    }
    const int64_t before = tensor->shape[0], cols = tensor->shape[1];
    const int64_t rows = std::max(before, growth.rows);
    std::vector<float>& values = values_.emplace_back(rows * cols);
    ConvertToF32(tensor->dtype, tensor->bytes.data(), before * cols, values.data());
    weights_->Release(*tensor);

    std::vector<double> sums(cols, 0.0);
    for (int64_t row = 0; row < growth.known; ++row) {
      for (int64_t c = 0; c < cols; ++c) sums[c] += values[row * cols + c];
    }
    const auto fill = [&](int64_t row) {
      for (int64_t c = 0; c < cols; ++c) {
        values[row * cols + c] = static_cast<float>(sums[c] / static_cast<double>(growth.known));
      }
    };
    for (const int32_t id : growth.ids) fill(id);
    for (int64_t row = before; row < rows; ++row) fill(row);
    tensor->dtype = DType::kF32;
    tensor->shape = {rows, cols};
    tensor->bytes = std::as_bytes(std::span(values));
    return absl::OkStatus();
  }

  const std::vector<SourceTensor>& tensors() const override { return tensors_; }
  void Release(const SourceTensor& tensor) const override {
    const bool own = std::any_of(values_.begin(), values_.end(), [&](const std::vector<float>& values) {
      return std::as_bytes(std::span(values)).data() == tensor.bytes.data();
    });
    if (!own) weights_->Release(tensor);
  }

 private:
  std::unique_ptr<WeightSource> weights_;
  std::vector<SourceTensor> tensors_;
  std::deque<std::vector<float>> values_;  // whose addresses stay
};

}  // namespace

absl::StatusOr<AddedTokens> WriteExtendedTokenizer(const ModelFiles& base,
                                                   const std::vector<std::string>& tokens,
                                                   const std::filesystem::path& folder) {
  FTUNE_RETURN_IF_ERROR(WriteTokenizerFiles(base, folder));
  const std::filesystem::path path = folder / kTokenizerFile;
  if (!Exists(path)) {
    return DataError({.file = base.path.string(),
                      .key = "model.added_tokens",
                      .message = "tokens can only be added to a tokenizer with tokenizer.json",
                      .hint = "save the tokenizer with transformers (AutoTokenizer, save_pretrained) first"});
  }
  FTUNE_ASSIGN_OR_RETURN(json tokenizer, ReadJsonFile(path));
  FTUNE_ASSIGN_OR_RETURN(Known known, KnownTokens(tokenizer, path.string()));
  json config = json::object();
  if (Exists(folder / kTokenizerConfigFile)) {
    FTUNE_ASSIGN_OR_RETURN(config, ReadJsonFile(folder / kTokenizerConfigFile));
  }
  AddedTokens added = {.known = known.size};
  for (const std::string& text : tokens) {
    if (text.empty()) {
      return UsageError({.key = "model.added_tokens", .found = "an empty text", .expected = "tokens"});
    }
    if (!known.texts.insert(text).second) continue;
    const int64_t id = added.rows();
    json fields = {{"id", id}};
    fields.update(TokenFields(text));
    tokenizer["added_tokens"].push_back(std::move(fields));
    if (config.contains("added_tokens_decoder") && config["added_tokens_decoder"].is_object()) {
      config["added_tokens_decoder"][std::to_string(id)] = TokenFields(text);
    }
    added.texts.push_back(text);
    added.ids.push_back(static_cast<int32_t>(id));
  }
  FTUNE_RETURN_IF_ERROR(WriteFileAtomic(path, tokenizer.dump(2) + "\n"));
  FTUNE_RETURN_IF_ERROR(WriteFileAtomic(folder / kTokenizerConfigFile, config.dump(2) + "\n"));
  return added;
}

absl::StatusOr<std::unique_ptr<WeightSource>> GrowRows(std::unique_ptr<WeightSource> weights,
                                                       const std::vector<std::string>& names,
                                                       const RowGrowth& growth) {
  auto grown = std::make_unique<GrownWeights>(std::move(weights));
  for (const std::string& name : names) FTUNE_RETURN_IF_ERROR(grown->Grow(name, growth));
  return grown;
}

}  // namespace ftune
