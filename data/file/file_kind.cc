#include "data/file/file_kind.h"

#include <algorithm>
#include <filesystem>

#include "base/strings.h"

namespace ftune {
namespace {

using namespace std::string_view_literals;

struct NamedKind {
  std::string_view extension;
  FileKind kind;
};
constexpr NamedKind kNamedKinds[] = {
    {".jsonl", FileKind::kJsonLines}, {".ndjson", FileKind::kJsonLines}, {".json", FileKind::kJson},
    {".csv", FileKind::kCsv},         {".tsv", FileKind::kCsv},          {".tab", FileKind::kCsv},
    {".txt", FileKind::kText},        {".text", FileKind::kText},        {".parquet", FileKind::kArrow},
    {".arrow", FileKind::kArrow},     {".feather", FileKind::kArrow},
};

struct Foreign {
  std::string_view magic;
  const char* name;
  const char* hint;
};
constexpr Foreign kForeign[] = {
    {"PK\x03\x04"sv, "a zip file", "unpack it"},
    {"BZh"sv, "a bzip2 file", "unpack it, or pack it as .gz or .zst"},
    {"\xFD\x37zXZ\0"sv, "an xz file", "unpack it, or pack it as .gz or .zst"},
    {"7z\xBC\xAF\x27\x1C"sv, "a 7z file", "unpack it"},
    {"SQLite format 3\0"sv, "an SQLite database", "write its rows out as JSON Lines"},
    {"GGUF"sv, "a GGUF model", "name a dataset"},
    {"%PDF-"sv, "a PDF file", "write its text out as a .txt file"},
    {"\x80\x04\x95"sv, "a Python pickle", "write its rows out as JSON Lines"},
    {"version https://git-lfs.github.com/spec/"sv, "a pointer of Git LFS",
     "fetch the file itself: git lfs pull"},
};

bool IsWords(std::string_view magic) {
  return std::all_of(magic.begin(), magic.end(), [](char c) { return c >= ' ' && c < '\x7F'; });
}

// Without .gz or .zst; in lower case.
std::string ExtensionOf(std::string_view path) {
  std::filesystem::path name(Lower(path));
  if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
  return name.extension().string();
}

constexpr char kConvert[] = "convert the file to UTF-8";

}  // namespace

std::optional<FileKind> KindByName(std::string_view path) {
  const std::string extension = ExtensionOf(path);
  const auto* found = std::find_if(std::begin(kNamedKinds), std::end(kNamedKinds),
                                   [&](const NamedKind& named) { return named.extension == extension; });
  return found == std::end(kNamedKinds) ? std::nullopt : std::optional(found->kind);
}

char CsvSeparatorByName(std::string_view path) { return ExtensionOf(path) == ".csv" ? '\0' : '\t'; }

Packing DetectPacking(std::string_view begin) {
  if (begin.starts_with("\x1F\x8B"sv)) return Packing::kGzip;
  if (begin.starts_with("\x28\xB5\x2F\xFD"sv)) return Packing::kZstd;
  // A frame that decoders skip (RFC 8878, 3.1.2); parallel compressors begin with one.
  const bool skippable =
      begin.size() >= 4 && (begin[0] & 0xF0) == 0x50 && begin.substr(1, 3) == "\x2A\x4D\x18"sv;
  return skippable ? Packing::kZstd : Packing::kNone;
}

absl::Status RefuseForeign(std::string_view begin, bool free_text, const RowPlace& place) {
  for (const Foreign& foreign : kForeign) {
    if (begin.starts_with(foreign.magic) && !(free_text && IsWords(foreign.magic))) {
      return RowError(
          place,
          {.found = foreign.name, .expected = "JSON, CSV, text, Parquet or Arrow", .hint = foreign.hint});
    }
  }
  if (begin.starts_with("\xFF\xFE\0\0"sv) || begin.starts_with("\0\0\xFE\xFF"sv)) {
    return RowError(place, {.found = "UTF-32", .expected = "UTF-8", .hint = kConvert});
  }
  // With a byte-order mark, or by the zero byte of an ASCII character.
  const bool little = begin.size() >= 2 && begin[0] != 0 && begin[1] == 0;
  const bool big = begin.size() >= 2 && begin[0] == 0 && begin[1] != 0;
  if (begin.starts_with("\xFF\xFE"sv) || begin.starts_with("\xFE\xFF"sv) || little || big) {
    return RowError(place, {.found = "UTF-16", .expected = "UTF-8", .hint = kConvert});
  }
  return absl::OkStatus();
}

}  // namespace ftune
