#include "data/file/open_blocks.h"

#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "data/file/csv_scanner.h"
#include "data/file/document_reader.h"
#include "data/file/json_layout.h"
#include "data/file/json_list_scanner.h"
#include "data/file/jsonl_scanner.h"
#include "data/file/peekable_bytes.h"
#include "data/file/unpacked_bytes.h"

namespace ftune {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr char kReadable[] = "JSON, CSV, text, Parquet or Arrow";

// Unpacks `bytes` where they are packed; once.
absl::StatusOr<std::unique_ptr<PeekableBytes>> Unpacked(std::unique_ptr<PeekableBytes> bytes,
                                                        const std::string& file) {
  FTUNE_ASSIGN_OR_RETURN(std::string_view begin, bytes->Peek(kMagicBytes));
  const Packing packing = DetectPacking(begin);
  if (packing == Packing::kNone) return bytes;
  auto unpacked = std::make_unique<PeekableBytes>(
      packing == Packing::kGzip ? UnpackGzip(file, std::move(bytes)) : UnpackZstd(file, std::move(bytes)));
  FTUNE_ASSIGN_OR_RETURN(begin, unpacked->Peek(kMagicBytes));
  if (DetectPacking(begin) != Packing::kNone || HasArrowMagic(begin)) {
    return RowError({file}, {.found = "a packed file within a packed file", .hint = "unpack it"});
  }
  return unpacked;
}

absl::StatusOr<std::unique_ptr<RowScanner>> MakeJsonScanner(PeekableBytes& bytes, const std::string& file,
                                                            FileKind kind) {
  FTUNE_ASSIGN_OR_RETURN(const std::string_view begin, bytes.Peek(kLayoutBytes));
  const JsonLayout layout = DetectJsonLayout(begin, begin.size() < kLayoutBytes);
  if (layout == JsonLayout::kList) return std::make_unique<JsonListScanner>(file, /*in_object=*/false);
  if (kind == FileKind::kJsonLines) return std::make_unique<JsonlScanner>();
  if (layout == JsonLayout::kListInObject) return std::make_unique<JsonListScanner>(file, /*in_object=*/true);
  if (layout == JsonLayout::kLoneObject) {
    return RowError({file, 1},
                    {.found = "one object over several lines",
                     .expected = "a list of objects, an object with such a list, or an object a line"});
  }
  return std::make_unique<JsonlScanner>();
}

absl::StatusOr<FileKind> KindByContent(std::string_view begin, const std::string& file) {
  const JsonLayout layout = DetectJsonLayout(begin, begin.size() < kMagicBytes);
  if (layout != JsonLayout::kNone) return FileKind::kJson;
  return RowError({file},
                  {.message = "neither the name nor the first byte tells what this file holds",
                   .expected = "JSON, or a name that ends with .jsonl, .json, .csv, .tsv, .txt, .parquet or "
                               ".arrow, and .gz or .zst behind that if it is packed"});
}

char SeparatorOf(const std::string& file) {
  const std::string name = Lower(file);
  return name.find(".tsv") != std::string::npos || name.find(".tab") != std::string::npos ? '\t' : '\0';
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlockReader>> OpenFileBlocks(const SourceFile& file,
                                                            const OpenOptions& options) {
  const RowPlace place{file.path};
  std::optional<FileKind> kind = options.kind ? options.kind : KindByName(file.path);
  const bool free_text = kind == FileKind::kText || kind == FileKind::kCsv;

  FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> raw, OpenFileBytes(file));
  auto bytes = std::make_unique<PeekableBytes>(std::move(raw));
  FTUNE_ASSIGN_OR_RETURN(std::string_view begin, bytes->Peek(kMagicBytes));
  if (!begin.empty() && (kind == FileKind::kArrow || (!free_text && HasArrowMagic(begin)))) {
    return RowError(place, {.message = "Parquet and Arrow files cannot be read by this build",
                            .hint = "write the rows out as JSON Lines"});
  }
  FTUNE_ASSIGN_OR_RETURN(bytes, Unpacked(std::move(bytes), file.path));
  FTUNE_ASSIGN_OR_RETURN(begin, bytes->Peek(kMagicBytes));
  if (begin.empty()) return RowError(place, {.found = "an empty file", .expected = kReadable});
  FTUNE_RETURN_IF_ERROR(RefuseForeign(begin, free_text, place));
  if (begin.starts_with(kByteOrderMark)) {
    bytes->Skip(kByteOrderMark.size());
    FTUNE_ASSIGN_OR_RETURN(begin, bytes->Peek(kMagicBytes));
  }

  if (!kind) {
    FTUNE_ASSIGN_OR_RETURN(kind, KindByContent(begin, file.path));
  }
  if (kind == FileKind::kText) return std::make_unique<DocumentReader>(file.path, std::move(bytes), options);
  std::unique_ptr<RowScanner> scanner;
  if (kind == FileKind::kCsv) {
    scanner = std::make_unique<CsvScanner>(file.path, SeparatorOf(file.path));
  } else {
    FTUNE_ASSIGN_OR_RETURN(scanner, MakeJsonScanner(*bytes, file.path, *kind));
  }
  return std::make_unique<ScannedReader>(file.path, std::move(bytes), std::move(scanner), options);
}

absl::StatusOr<std::unique_ptr<BlockReader>> OpenBlocks(const std::string& path, const OpenOptions& options) {
  return OpenFileBlocks({.path = path}, options);
}

}  // namespace ftune
