#include "cmd/hub/dataset_files.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/hub/glob.h"

namespace ftune {
namespace {

using Paths = std::vector<std::string>;
using Splits = std::map<std::string, Paths>;

// The kinds of files with rows in them. Where a split has several, the commonest is taken, the first here
// among equals.
constexpr std::array<std::string_view, 8> kKinds = {".parquet", ".jsonl", ".ndjson", ".json",
                                                    ".csv",     ".tsv",   ".arrow",  ".txt"};
// JSON files that describe the data.
constexpr std::array<std::string_view, 5> kNotData = {"dataset_infos.json", "dataset_info.json",
                                                      "dataset_dict.json", "state.json", "config.json"};

struct Keyword {
  std::string_view split;
  std::string_view word;
};
constexpr std::array<Keyword, 10> kKeywords = {{{"train", "train"},
                                                {"train", "training"},
                                                {"validation", "validation"},
                                                {"validation", "valid"},
                                                {"validation", "dev"},
                                                {"validation", "val"},
                                                {"test", "test"},
                                                {"test", "testing"},
                                                {"test", "eval"},
                                                {"test", "evaluation"}}};

std::string_view NameOf(std::string_view path) { return path.substr(path.rfind('/') + 1); }
std::string_view FolderOf(std::string_view path) {
  const size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? "" : path.substr(0, slash);
}

// How many parts of `path` begin with `prefix`.
int PartsWith(std::string_view path, std::string_view prefix) {
  int count = 0;
  while (true) {
    const size_t end = path.find('/');
    const std::string_view part = path.substr(0, end);
    if (part.starts_with(prefix) && part != "." && part != "..") ++count;
    if (end == std::string_view::npos) return count;
    path.remove_prefix(end + 1);
  }
}

// Hidden files and folders, and folders such as __pycache__, are data only where `pattern` names them.
bool IsMeant(std::string_view path, std::string_view pattern) {
  return PartsWith(path, ".") == PartsWith(pattern, ".") &&
         PartsWith(FolderOf(path), "__") == PartsWith(FolderOf(pattern), "__");
}

// The kind of a file's rows, or empty.
std::string_view KindOf(std::string_view path) {
  const std::string_view name = NameOf(path);
  if (std::find(kNotData.begin(), kNotData.end(), name) != kNotData.end()) return "";
  std::string lower = Lower(name);
  for (const std::string_view packed : {".gz", ".zst"}) {
    if (lower.ends_with(packed)) lower.resize(lower.size() - packed.size());
  }
  for (const std::string_view kind : kKinds) {
    if (lower.ends_with(kind)) return kind;
  }
  return "";
}

bool IsSeparator(char c) { return c == '-' || c == '.' || c == '_' || c == ' ' || (c >= '0' && c <= '9'); }

// Whether `word` stands in `text` with a separator, or an end, on each side.
bool HasWord(std::string_view text, std::string_view word) {
  for (size_t at = 0; (at = text.find(word, at)) != std::string_view::npos; ++at) {
    const size_t end = at + word.size();
    if ((at == 0 || IsSeparator(text[at - 1])) && (end == text.size() || IsSeparator(text[end]))) return true;
  }
  return false;
}

bool HasWordInFolder(std::string_view folder, std::string_view word) {
  while (!folder.empty()) {
    const size_t end = std::min(folder.find('/'), folder.size());
    if (HasWord(folder.substr(0, end), word)) return true;
    folder.remove_prefix(std::min(end + 1, folder.size()));
  }
  return false;
}

template <class Matches>
Splits SplitsByKeyword(const Paths& paths, Matches matches) {
  Splits splits;
  for (const Keyword& keyword : kKeywords) {
    Paths& files = splits[std::string(keyword.split)];
    for (const std::string& path : paths) {
      const bool known = std::find(files.begin(), files.end(), path) != files.end();
      if (!known && matches(path, keyword.word)) files.push_back(path);
    }
  }
  std::erase_if(splits, [](const auto& split) { return split.second.empty(); });
  return splits;
}

// data/SPLIT-00000-of-00003.parquet: any name of a split.
Splits ShardedSplits(const Paths& paths, const std::string& folder) {
  Splits splits;
  const std::string pattern =
      StrCat(folder, "data/*-[0-9][0-9][0-9][0-9][0-9]-of-[0-9][0-9][0-9][0-9][0-9]*.*");
  for (const std::string& path : paths) {
    if (!MatchesGlob(pattern, path)) continue;
    const std::string_view name = NameOf(path);
    const size_t of = name.find("-of-");
    splits[std::string(name.substr(0, of - 6))].push_back(path);
  }
  return splits;
}

// By the names of the files in `folder` ("" or "x/").
Splits SplitsByName(const Paths& all, const std::string& folder) {
  Paths paths;
  for (const std::string& path : all) {
    if (path.starts_with(folder) && IsMeant(path, folder) && !KindOf(path).empty()) paths.push_back(path);
  }
  Splits splits = ShardedSplits(paths, folder);
  if (splits.empty()) {
    splits = SplitsByKeyword(paths, [&](std::string_view path, std::string_view word) {
      return HasWordInFolder(FolderOf(path.substr(folder.size())), word);
    });
  }
  if (splits.empty()) {
    splits = SplitsByKeyword(
        paths, [](std::string_view path, std::string_view word) { return HasWord(NameOf(path), word); });
  }
  if (splits.empty() && !paths.empty()) splits["train"] = paths;
  return splits;
}

// The YAML between the lines of dashes at a README's top; empty where there is none.
std::string_view FrontMatter(std::string_view readme) {
  if (!readme.starts_with("---\n") && !readme.starts_with("---\r\n")) return "";
  readme.remove_prefix(readme.find('\n') + 1);
  const size_t end = std::string_view("\n").size() + readme.find("\n---");
  return end == 0 ? "" : readme.substr(0, end);
}

std::string TextOf(const YAML::Node& node) { return node && node.IsScalar() ? node.Scalar() : ""; }

// A text or a list of texts.
Paths TextsOf(const YAML::Node& node) {
  Paths texts;
  if (node.IsScalar()) texts.push_back(node.Scalar());
  if (node.IsSequence()) {
    for (const YAML::Node& item : node) texts.push_back(TextOf(item));
  }
  return texts;
}

struct Subset {
  std::string name;
  bool is_default = false;
  Splits splits;
  std::map<std::string, std::string> absent;  // by split: a file that is named and is not there
};

void AddMatches(const Paths& paths, const std::string& folder, const Paths& patterns,
                const std::string& split, Subset& subset) {
  Paths& files = subset.splits[split];
  for (std::string pattern : patterns) {
    if (pattern.starts_with("./")) pattern.erase(0, 2);
    bool found = pattern.find_first_of("*?[") != std::string::npos;
    for (const std::string& path : paths) {
      const bool matches =
          !KindOf(path).empty() && IsMeant(path, folder + pattern) && MatchesGlob(folder + pattern, path);
      found = found || matches;
      if (matches && std::find(files.begin(), files.end(), path) == files.end()) files.push_back(path);
    }
    if (!found) subset.absent.emplace(split, folder + pattern);
  }
}

Subset ReadSubset(const YAML::Node& config, const Paths& paths) {
  Subset subset{.name = TextOf(config["config_name"])};
  if (subset.name.empty()) subset.name = "default";
  subset.is_default = subset.name == "default" || TextOf(config["default"]) == "true";
  std::string folder = config["data_dir"] ? TextOf(config["data_dir"]) : "";
  if (folder.starts_with("./")) folder.erase(0, 2);
  if (!folder.empty() && !folder.ends_with('/')) folder.push_back('/');
  const YAML::Node data = config["data_files"];
  if (!data) {
    subset.splits = SplitsByName(paths, folder);
    return subset;
  }
  if (data.IsSequence() && data.size() > 0 && data[0].IsMap()) {
    for (const YAML::Node& entry : data) {
      if (!entry.IsMap() || !entry["path"]) continue;
      std::string split = entry["split"] ? TextOf(entry["split"]) : "train";
      AddMatches(paths, folder, TextsOf(entry["path"]), split, subset);
    }
  } else if (data.IsMap()) {
    for (const auto& entry : data)
      AddMatches(paths, folder, TextsOf(entry.second), TextOf(entry.first), subset);
  } else {
    AddMatches(paths, folder, TextsOf(data), "train", subset);
  }
  return subset;
}

absl::StatusOr<std::vector<Subset>> ReadSubsets(const std::string& readme, const Paths& paths,
                                                const std::string& id) {
  std::vector<Subset> subsets;
  try {
    const YAML::Node root = YAML::Load(std::string(FrontMatter(readme)));
    const YAML::Node configs = root.IsMap() ? root["configs"] : YAML::Node();
    if (!configs || !configs.IsSequence()) return subsets;
    for (const YAML::Node& config : configs) {
      if (config.IsMap()) subsets.push_back(ReadSubset(config, paths));
    }
  } catch (const YAML::Exception& error) {
    return DataError(
        {.file = StrCat(id, "/README.md"),
         .message = StrCat("its YAML, which says which files are what, cannot be read: ", error.msg),
         .hint = "name another revision, or download the files and name them"});
  }
  return subsets;
}

absl::StatusOr<Subset> ChooseSubset(const std::vector<Subset>& subsets, const Paths& paths,
                                    const DatasetChoice& choice) {
  if (subsets.empty()) {
    const std::string folder = choice.subset ? StrCat(*choice.subset, "/") : "";
    Subset whole{.splits = SplitsByName(paths, folder)};
    if (!whole.splits.empty() || !choice.subset) return whole;
    return DataError({.file = choice.id,
                      .key = "name",
                      .found = StrCat("'", *choice.subset, "'"),
                      .expected = "a folder of the dataset with data in it: its README.md names no subsets"});
  }
  std::vector<std::string> names;
  for (const Subset& subset : subsets) names.push_back(subset.name);
  for (const Subset& subset : subsets) {
    const bool meant =
        choice.subset ? subset.name == *choice.subset : subset.is_default || subsets.size() == 1;
    if (meant) return subset;
  }
  return DataError(
      {.file = choice.id,
       .key = "name",
       .message = choice.subset ? "the dataset has no such subset" : "the dataset has several subsets",
       .found = choice.subset ? StrCat("'", *choice.subset, "'") : "none named",
       .expected = StrCat("one of ", StrJoin(names, ", "))});
}

absl::StatusOr<Paths> ChooseSplit(const Subset& subset, const DatasetChoice& choice) {
  const Splits& splits = subset.splits;
  if (splits.empty()) {
    return DataError({.file = choice.id,
                      .message = "the dataset has no files of rows",
                      .expected = StrCat("files of the types ", StrJoin(kKinds, ", ")),
                      .hint = "the hub may have converted them: try revision: refs/convert/parquet"});
  }
  std::string wanted;
  if (choice.split) {
    wanted = *choice.split;
  } else if (splits.size() == 1) {
    wanted = splits.begin()->first;
  } else if (choice.train_is_meant) {
    wanted = "train";
  }
  if (const auto absent = subset.absent.find(wanted); absent != subset.absent.end()) {
    return DataError({.file = choice.id,
                      .key = "split",
                      .message = StrCat("its README.md names a file for '", wanted,
                                        "' that is not there, or holds no rows"),
                      .found = StrCat("'", absent->second, "'"),
                      .hint = "name another revision, or download the files and name them"});
  }
  const auto found = splits.find(wanted);
  if (found != splits.end() && !found->second.empty()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, files] : splits) names.push_back(name);
  ErrorDetail detail{.file = choice.id,
                     .key = "split",
                     .message = "the dataset has no such split",
                     .found = StrCat("'", wanted, "'"),
                     .expected = StrCat("one of ", StrJoin(names, ", "))};
  if (found != splits.end()) {
    detail.message = "no file of the dataset matches what its README.md says of the split";
    detail.expected.clear();
  }
  if (wanted.empty()) {
    detail.message = "the dataset has several splits";
    detail.found = "none named";
  }
  return DataError(std::move(detail));
}

// Files of one kind: the commonest.
DatasetFiles OfOneKind(const Paths& files) {
  std::map<std::string_view, Paths> kinds;
  for (const std::string& file : files) kinds[KindOf(file)].push_back(file);
  std::string_view best;
  for (const std::string_view kind : kKinds) {
    if (kinds.contains(kind) && (best.empty() || kinds[kind].size() > kinds[best].size())) best = kind;
  }
  DatasetFiles chosen{.files = kinds[best]};
  std::sort(chosen.files.begin(), chosen.files.end());
  for (const auto& [kind, others] : kinds) {
    if (kind == best) continue;
    chosen.notes.push_back(StrCat(others.size(), " ", kind, others.size() == 1 ? " file" : " files", " (",
                                  others.front(), others.size() == 1 ? "" : " …",
                                  ") left out: the split is read from its ", best, " files"));
  }
  return chosen;
}

}  // namespace

absl::StatusOr<DatasetFiles> ChooseDatasetFiles(const std::vector<std::string>& paths,
                                                const std::string& readme, const DatasetChoice& choice) {
  FTUNE_ASSIGN_OR_RETURN(const std::vector<Subset> subsets, ReadSubsets(readme, paths, choice.id));
  FTUNE_ASSIGN_OR_RETURN(const Subset subset, ChooseSubset(subsets, paths, choice));
  FTUNE_ASSIGN_OR_RETURN(const Paths files, ChooseSplit(subset, choice));
  return OfOneKind(files);
}

}  // namespace ftune
