#include "data/prepare/store_key.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/gguf.h"
#include "base/strings.h"
#include "data/source/row_shape.h"
#include "data/store/shard_format.h"

namespace ftune {
namespace {

using nlohmann::ordered_json;

constexpr std::array<const char*, 6> kTokenizerFiles = {".json", ".jinja",    ".model",
                                                        ".v3",   ".tiktoken", ".txt"};

std::string Dump(const ordered_json& json) {
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace);
}

std::string HashText(std::string_view text) { return HexOf(Xxh3Of128(text)); }

absl::StatusOr<ordered_json> DescribeFolder(const std::filesystem::path& folder) {
  FTUNE_ASSIGN_OR_RETURN(const std::vector<std::filesystem::path> paths, ListFolder(folder));
  ordered_json files = ordered_json::object();
  for (const std::filesystem::path& path : paths) {
    const std::string type = Lower(path.extension().string());
    std::error_code ignored;
    if (std::find(kTokenizerFiles.begin(), kTokenizerFiles.end(), type) == kTokenizerFiles.end() ||
        !std::filesystem::is_regular_file(path, ignored)) {
      continue;
    }
    FTUNE_ASSIGN_OR_RETURN(const HashedFile file, HashFile({.path = path.string()}));
    files[path.filename().string()] = HexOf(file.hash);
  }
  return files;
}

// All metadata, whatever the tensors are.
absl::StatusOr<ordered_json> DescribeGguf(const std::filesystem::path& path) {
  FTUNE_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  ordered_json metadata = ordered_json::object();
  for (const GgufEntry& entry : file.entries()) {
    metadata[entry.key] =
        HashText({reinterpret_cast<const char*>(entry.encoded.data()), entry.encoded.size()});
  }
  return metadata;
}

// Whether the text has a format of strftime that is finer than a day. Wherever it stands, since a variable
// may hold it: to find one too many is harmless.
bool TellsTimeOfDay(std::string_view text) {
  constexpr std::string_view kFine = "cHIklMpPrRsSTX";
  constexpr std::string_view kFlagsAndWidth = "_-0^#123456789EO";
  for (size_t at = text.find('%'); at != std::string_view::npos; at = text.find('%', at + 1)) {
    if (at > 0 && text[at - 1] == '{') continue;  // {%set …
    const size_t conversion = text.find_first_not_of(kFlagsAndWidth, at + 1);
    if (conversion != std::string_view::npos && kFine.find(text[conversion]) != std::string_view::npos) {
      return true;
    }
  }
  return false;
}

ordered_json DescribeOptions(const SampleOptions& options) {
  // Names each field: one that is new does not compile until it stands here and below.
  const auto& [train_on_inputs, train_on_turns, roles_to_train, split_turns, sequence_len,
               excess_length_strategy, truncation_side] = options;
  return {{"train_on_inputs", train_on_inputs},
          {"train_on_turns", static_cast<int>(train_on_turns)},
          {"roles_to_train", roles_to_train},
          {"split_turns", static_cast<int>(split_turns)},
          {"sequence_len", sequence_len},
          {"excess_length_strategy", static_cast<int>(excess_length_strategy)},
          {"truncation_side", static_cast<int>(truncation_side)}};
}

ordered_json DescribeEntry(const DatasetEntry& entry, const std::vector<HashedFile>& files) {
  // As above. How often the samples are taken does not change them.
  const auto& [path, format, mapping, mix, paths] = entry;
  const auto& [columns, roles] = mapping;
  static_cast<void>(path);
  static_cast<void>(paths);
  static_cast<void>(mix);
  ordered_json list = ordered_json::array();
  for (const HashedFile& file : files) {
    list.push_back({{"path", file.file.path}, {"size", file.size}, {"hash", HexOf(file.hash)}});
  }
  return {{"format", RowFormatName(format)}, {"columns", columns}, {"roles", roles}, {"files", list}};
}

}  // namespace

absl::StatusOr<std::string> DescribeTokenizer(const std::filesystem::path& model) {
  std::error_code ignored;
  if (std::filesystem::is_directory(model, ignored)) {
    FTUNE_ASSIGN_OR_RETURN(const ordered_json files, DescribeFolder(model));
    return Dump(files);
  }
  if (Lower(model.extension().string()) == ".gguf") {
    FTUNE_ASSIGN_OR_RETURN(const ordered_json metadata, DescribeGguf(model));
    return Dump(metadata);
  }
  // A tokenizer.json by itself: those beside it count too, as when it is loaded.
  FTUNE_ASSIGN_OR_RETURN(const HashedFile file, HashFile({.path = model.string()}));
  FTUNE_ASSIGN_OR_RETURN(ordered_json files,
                         DescribeFolder(model.has_parent_path() ? model.parent_path() : "."));
  files["path"] = HexOf(file.hash);
  return Dump(files);
}

std::string DescribeTemplate(const std::string& text, std::time_t now) {
  if (text.find("strftime_now") == std::string::npos) return text;
  std::tm local{};
  localtime_r(&now, &local);
  std::string described = StrCat(
      text, absl::StrFormat("\n%04d-%02d-%02d", 1900 + local.tm_year, 1 + local.tm_mon, local.tm_mday));
  if (TellsTimeOfDay(text)) {
    StrAppend(described, absl::StrFormat(" %02d:%02d:%02d", local.tm_hour, local.tm_min, local.tm_sec));
  }
  return described;
}

absl::StatusOr<StoreKey> MakeStoreKey(const std::vector<DatasetEntry>& entries,
                                      const std::vector<std::vector<HashedFile>>& files,
                                      const SampleSource& source, const BuildOptions& options) {
  // Another build may tokenise, render or mask in another way.
  FTUNE_ASSIGN_OR_RETURN(const HashedFile program, HashFile({.path = "/proc/self/exe"}));
  ordered_json json = {{"shard_version", kShardVersion},
                       {"program", HexOf(program.hash)},
                       {"tokenizer", HashText(source.tokenizer)},
                       {"chat_template", HashText(source.chat_template)},
                       {"options", DescribeOptions(source.options)},
                       {"on_bad_row", options.bad_rows == BadRows::kSkip ? "skip" : "error"},
                       {"block_bytes", options.block_bytes},
                       {"shard_bytes", options.shard_bytes},
                       {"entries", ordered_json::array()}};
  for (size_t i = 0; i < entries.size(); ++i) {
    json["entries"].push_back(DescribeEntry(entries[i], files[i]));
  }
  StoreKey key{.description = Dump(json)};
  key.hash = Xxh3Of128(key.description);
  return key;
}

}  // namespace ftune
