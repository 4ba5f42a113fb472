#include "cmd/hub/model_files.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr std::string_view kTokenizerFiles[] = {"tokenizer.json",    "tokenizer_config.json",
                                                "tokenizer.model",   "special_tokens_map.json",
                                                "vocab.json",        "merges.txt",
                                                "added_tokens.json", "chat_template.jinja",
                                                "vocab.txt",         "chat_template.json",
                                                "tokenizer.model.v3"};
constexpr std::string_view kConfigFile = "config.json";
constexpr std::string_view kConfigFiles[] = {kConfigFile, "generation_config.json", "adapter_config.json",
                                             "ftune_adapter.json"};
constexpr std::string_view kSingleFile = "model.safetensors";
constexpr std::string_view kIndexFile = "model.safetensors.index.json";
constexpr std::string_view kAdapterFile = "adapter_model.safetensors";

bool Has(const std::vector<std::string>& paths, std::string_view path) {
  return std::find(paths.begin(), paths.end(), path) != paths.end();
}

// NAME-00002-of-00003.TYPE.
struct Shard {
  std::string before, after;  // what is beside the numbers
  std::string_view number, count;
};

std::optional<Shard> ParseShard(std::string_view path) {
  constexpr size_t kDigits = 5;
  constexpr std::string_view kOf = "-of-";
  const auto digits = [&](size_t at) {
    const std::string_view text = path.substr(at, kDigits);
    return text.size() == kDigits &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  const size_t of = path.rfind(kOf);
  if (of == std::string_view::npos || of < kDigits + 1 || path[of - kDigits - 1] != '-') return std::nullopt;
  if (!digits(of - kDigits) || !digits(of + kOf.size())) return std::nullopt;
  const size_t end = of + kOf.size() + kDigits;
  return Shard{.before = std::string(path.substr(0, of - kDigits)),
               .after = std::string(path.substr(end)),
               .number = path.substr(of - kDigits, kDigits),
               .count = path.substr(of + kOf.size(), kDigits)};
}

// They have names of their own, as qwen.tiktoken.
bool IsTiktokenFile(std::string_view path) {
  return path.ends_with(".tiktoken") && path.find('/') == path.npos;
}

bool IsWeightShard(std::string_view path) {
  const std::optional<Shard> shard = ParseShard(path);
  return shard && shard->before == "model-" && shard->after == ".safetensors";
}

absl::Status NoWeights(const std::vector<std::string>& paths, const std::string& id) {
  std::vector<std::string> gguf;
  bool pickle = false;
  for (const std::string& path : paths) {
    if (Lower(path).ends_with(".gguf")) gguf.push_back(StrCat(id, "/", path));
    pickle = pickle || path.ends_with(".bin") || path.ends_with(".pt") || path.ends_with(".pth");
  }
  constexpr size_t kMostNamed = 6;
  if (gguf.size() > kMostNamed) gguf.resize(kMostNamed);
  ErrorDetail detail{.file = id,
                     .message = "the repository has no model in safetensors",
                     .expected = "config.json with model.safetensors or model.safetensors.index.json"};
  if (!gguf.empty()) {
    detail.found = "GGUF files";
    detail.hint = StrCat("name one of them: ", StrJoin(gguf, ", "));
  } else if (pickle) {
    detail.found = "weights as pickles, which can run any code and are never read";
    detail.hint = "look for a revision or another repository with safetensors";
  }
  return DataError(std::move(detail));
}

}  // namespace

bool HasAllShards(const std::vector<std::string>& paths) {
  std::map<std::string, std::pair<int, std::set<std::string>>> groups;  // how many there are, which are here
  for (const std::string& path : paths) {
    const std::optional<Shard> shard = ParseShard(path);
    if (!shard) continue;
    auto& [count, numbers] = groups[StrCat(shard->before, shard->count, shard->after)];
    count = std::stoi(std::string(shard->count));
    numbers.emplace(shard->number);
  }
  return std::all_of(groups.begin(), groups.end(), [](const auto& group) {
    return static_cast<int>(group.second.second.size()) >= group.second.first;
  });
}

absl::StatusOr<std::vector<std::string>> ChooseModelFiles(const std::vector<std::string>& paths,
                                                          ModelParts parts, const std::string& id) {
  std::vector<std::string> chosen;
  const auto take = [&](const auto& names) {
    for (const std::string_view name : names) {
      if (Has(paths, name)) chosen.emplace_back(name);
    }
  };
  if (parts == ModelParts::kConfig && Has(paths, kConfigFile)) {
    take(kConfigFiles);
    return chosen;
  }
  take(kTokenizerFiles);
  std::copy_if(paths.begin(), paths.end(), std::back_inserter(chosen), IsTiktokenFile);
  if (parts == ModelParts::kTokenizer && !chosen.empty()) return chosen;
  take(kConfigFiles);
  if (Has(paths, "adapter_config.json") && Has(paths, kAdapterFile)) {
    chosen.emplace_back(kAdapterFile);
    return chosen;
  }
  if (!Has(paths, kConfigFile)) return NoWeights(paths, id);
  if (Has(paths, kSingleFile)) {
    chosen.emplace_back(kSingleFile);
    return chosen;
  }
  if (!Has(paths, kIndexFile)) return NoWeights(paths, id);
  chosen.emplace_back(kIndexFile);
  std::copy_if(paths.begin(), paths.end(), std::back_inserter(chosen), IsWeightShard);
  return chosen;
}

bool IsWholeModel(const std::vector<std::string>& paths, ModelParts parts) {
  if (parts == ModelParts::kConfig) return Has(paths, kConfigFile);
  const bool tokenizer = Has(paths, "tokenizer.json") || Has(paths, "tokenizer.model") ||
                         (Has(paths, "vocab.json") && Has(paths, "merges.txt")) ||
                         std::any_of(paths.begin(), paths.end(), IsTiktokenFile);
  // Without its configuration a tokenizer has no chat template.
  if (!tokenizer || !Has(paths, "tokenizer_config.json")) return false;
  if (parts == ModelParts::kTokenizer) return true;
  if (!Has(paths, kConfigFile)) return false;
  if (Has(paths, kSingleFile)) return true;
  return Has(paths, kIndexFile) && std::any_of(paths.begin(), paths.end(), IsWeightShard) &&
         HasAllShards(paths);
}

}  // namespace ftune
