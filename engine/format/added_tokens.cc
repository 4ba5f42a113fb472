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
#include "base/mapped_file.h"
#include "base/strings.h"
#include "engine/format/hf_writer.h"

namespace ftune {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr char kTokenizerFile[] = "tokenizer.json";
constexpr char kConfigFile[] = "tokenizer_config.json";

absl::StatusOr<OrderedJson> ReadOrdered(const std::filesystem::path& path) {
  FTUNE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  FTUNE_RETURN_IF_ERROR(ParseJson(std::string(file.text()), path.string()).status());
  return OrderedJson::parse(file.text());
}

// Every token of tokenizer.json, and the id after the last.
struct Known {
  std::set<std::string> texts;
  int64_t size = 0;

  void Add(const std::string& text, int64_t id) {
    texts.insert(text);
    size = std::max(size, id + 1);
  }
};

absl::StatusOr<Known> KnownTokens(const OrderedJson& tokenizer, const std::string& file) {
  Known known;
  const OrderedJson vocabulary = tokenizer.value("/model/vocab"_json_pointer, OrderedJson());
  if (!vocabulary.is_object()) {
    return DataError({.file = file,
                      .key = "model.vocab",
                      .message = "tokens can only be added to a BPE tokenizer",
                      .found = Excerpt(nlohmann::json(vocabulary)),
                      .expected = "tokens with their ids"});
  }
  for (const auto& [text, id] : vocabulary.items()) {
    if (id.is_number_integer()) known.Add(text, id.get<int64_t>());
  }
  for (const OrderedJson& token : tokenizer.value("added_tokens", OrderedJson::array())) {
    known.Add(token.value("content", ""), token.value("id", int64_t{-1}));
  }
  return known;
}

OrderedJson TokenFields(const std::string& text) {
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
    for (int64_t i = 0; i < growth.known * cols; ++i) sums[i % cols] += values[i];
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
  FTUNE_ASSIGN_OR_RETURN(OrderedJson tokenizer, ReadOrdered(path));
  FTUNE_ASSIGN_OR_RETURN(Known known, KnownTokens(tokenizer, path.string()));
  OrderedJson config = OrderedJson::object();
  if (Exists(folder / kConfigFile)) {
    FTUNE_ASSIGN_OR_RETURN(config, ReadOrdered(folder / kConfigFile));
  }
  AddedTokens added = {.known = known.size};
  for (const std::string& text : tokens) {
    if (!known.texts.insert(text).second) continue;
    const int64_t id = added.rows();
    OrderedJson fields = {{"id", id}};
    fields.update(TokenFields(text));
    tokenizer["added_tokens"].push_back(std::move(fields));
    if (config.contains("added_tokens_decoder")) {
      config["added_tokens_decoder"][std::to_string(id)] = TokenFields(text);
    }
    added.texts.push_back(text);
    added.ids.push_back(static_cast<int32_t>(id));
  }
  FTUNE_RETURN_IF_ERROR(WriteFileAtomic(path, tokenizer.dump(2) + "\n"));
  FTUNE_RETURN_IF_ERROR(WriteFileAtomic(folder / kConfigFile, config.dump(2) + "\n"));
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
