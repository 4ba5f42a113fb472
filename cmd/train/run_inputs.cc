#include "cmd/train/run_inputs.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/json_file.h"
#include "base/strings.h"
#include "base/xxh3_stream.h"
#include "cmd/recipe/key_table.h"

namespace ftune {
namespace {

bool Stays(const SharedInput& input) { return RecipeKeys().Find(input.key)->on_resume == OnResume::kFixed; }

bool Has(const std::vector<SharedInput>& inputs, const std::string& key) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [&](const SharedInput& input) { return input.key == key; });
}

std::vector<SharedInput> OfKey(const std::vector<SharedInput>& inputs, const std::string& key) {
  std::vector<SharedInput> found;
  for (const SharedInput& input : inputs) {
    if (input.key == key) found.push_back(input);
  }
  return found;
}

// The inputs as one text, those that `chosen` names.
template <class Chosen>
std::string FingerprintOf(const std::vector<SharedInput>& inputs, Chosen chosen) {
  Xxh3Stream hash;
  bool any = false;
  for (const SharedInput& input : inputs) {
    if (!chosen(input)) continue;
    hash.Add(StrCat(input.key, "\n", input.size, "\n", input.hash, "\n"));
    any = true;
  }
  return any ? absl::StrFormat("%016x", hash.Digest64()) : "";
}

// `now` and `then` are those of one key, and differ.
absl::Status Differs(const std::vector<SharedInput>& now, const std::vector<SharedInput>& then) {
  const auto [a, b] = std::mismatch(now.begin(), now.end(), then.begin(), then.end(), Same);
  const auto show = [](auto input, const std::vector<SharedInput>& all) {
    return input == all.end()
               ? std::string("no such file")
               : StrCat(input->place, ", ", input->size, absl::StrFormat(", %016x", input->hash));
  };
  const SharedInput& one = a != now.end() ? *a : *b;
  return DataError({.key = one.key,
                    .message = "it holds something else than when the run began",
                    .found = show(a, now),
                    .expected = show(b, then),
                    .hint = "bring back what was there, or start another run with model.init_from"});
}

}  // namespace

absl::StatusOr<std::vector<SharedInput>> ReadInputs(const std::filesystem::path& path) {
  if (!Exists(path)) return std::vector<SharedInput>();
  const std::string file = path.string();
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json root, ReadJsonFile(file));
  std::vector<SharedInput> inputs;
  for (const nlohmann::json& item : root) {
    if (!item.is_object()) return DataError({.file = file, .found = Excerpt(item), .expected = "an object"});
    SharedInput& input = inputs.emplace_back();
    FTUNE_ASSIGN_OR_RETURN(input.key, RequiredField<std::string>(item, "key", file));
    FTUNE_ASSIGN_OR_RETURN(input.place, RequiredField<std::string>(item, "place", file));
    FTUNE_ASSIGN_OR_RETURN(input.size, RequiredField<std::string>(item, "size", file));
    FTUNE_ASSIGN_OR_RETURN(const std::string hash, RequiredField<std::string>(item, "hash", file));
    input.hash = std::strtoull(hash.c_str(), nullptr, 16);
  }
  return inputs;
}

absl::Status WriteInputs(const std::vector<SharedInput>& inputs, const std::filesystem::path& path) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const SharedInput& input : inputs) {
    if (!Stays(input) && input.key != kEvaluationKey) continue;
    list.push_back({{"key", input.key},
                    {"place", input.place},
                    {"size", input.size},
                    {"hash", absl::StrFormat("%016x", input.hash)}});
  }
  constexpr auto kReplace = nlohmann::ordered_json::error_handler_t::replace;
  return WriteFileAtomic(path, StrCat(list.dump(1, ' ', false, kReplace), "\n"));
}

absl::Status CheckInputs(const Recipe& recipe, const std::vector<SharedInput>& inputs,
                         const std::filesystem::path& path) {
  FTUNE_ASSIGN_OR_RETURN(const std::vector<SharedInput> then, ReadInputs(path));
  std::vector<std::string> keys;  // of which the file has something
  for (const SharedInput& input : then) {
    if (std::find(keys.begin(), keys.end(), input.key) == keys.end()) keys.push_back(input.key);
  }
  // The best loss so far is one of the same evaluation data.
  if (!recipe.train.early_stopping_patience) std::erase(keys, kEvaluationKey);
  for (const std::string& key : keys) {
    const std::vector<SharedInput> a = OfKey(inputs, key), b = OfKey(then, key);
    if (std::equal(a.begin(), a.end(), b.begin(), b.end(), Same)) continue;
    // What the samples were made from may have been written anew.
    const bool samples = !a.empty() && !b.empty() && IsSamples(a.back()) && Same(a.back(), b.back());
    if (!samples) return Differs(a, b);
  }
  return absl::OkStatus();
}

std::vector<std::string> KeysByContent(const std::vector<SharedInput>& inputs) {
  std::vector<std::string> keys;
  for (const char* key : {"model.init_from", kTrainKey, kEvaluationKey, "data.chat_template"}) {
    if (Has(inputs, key)) keys.push_back(key);
  }
  // The model is model.path, or model.init_from in its place.
  if (Has(inputs, "model.path") || Has(inputs, "model.init_from")) {
    keys.insert(keys.end(), {"model.path", "model.revision"});
  }
  return keys;
}

absl::Status CheckModelInputs(const std::filesystem::path& model,
                              const std::optional<std::filesystem::path>& checkpoint,
                              const std::filesystem::path& path) {
  FTUNE_ASSIGN_OR_RETURN(const std::vector<SharedInput> all, ReadInputs(path));
  // The model is model.path, or model.init_from in its place.
  std::vector<SharedInput> then = OfKey(all, "model.path");
  const std::vector<SharedInput> init = OfKey(all, "model.init_from");
  if (then.empty()) then = init;
  if (then.empty()) return absl::OkStatus();
  Recipe recipe;
  recipe.model.here = model.string();
  ModelPlan plan;
  plan.model_path = model.string();
  plan.checkpoint = checkpoint;
  FTUNE_ASSIGN_OR_RETURN(const std::vector<SharedInput> inputs, ModelInputs(recipe, plan));
  std::vector<SharedInput> now = OfKey(inputs, "model.path");
  for (SharedInput& input : now) input.key = then.front().key;
  if (!std::equal(now.begin(), now.end(), then.begin(), then.end(), Same)) return Differs(now, then);
  // An adapter that went on from another one has that one's checkpoint here, not its base's.
  const std::vector<SharedInput> under = OfKey(inputs, "model.init_from");
  if (init.size() != 1 || under.size() != 1) return absl::OkStatus();
  const std::string& named = init.front().place;
  if (named != under.front().place && Exists(named)) return absl::OkStatus();
  return Same(under.front(), init.front()) ? absl::OkStatus() : Differs(under, init);
}

std::string FingerprintOfModel(const std::vector<SharedInput>& inputs) {
  return FingerprintOf(inputs, [](const SharedInput& input) { return input.key.starts_with("model."); });
}

std::string FingerprintOfData(const std::vector<SharedInput>& inputs) {
  return FingerprintOf(inputs,
                       [](const SharedInput& input) { return input.key == kTrainKey && IsSamples(input); });
}

}  // namespace ftune
