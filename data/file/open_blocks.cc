#include "data/file/open_blocks.h"

#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "data/arrow/arrow_reader.h"
#include "data/file/csv_scanner.h"
#include "data/file/document_reader.h"
#include "data/file/json_layout.h"
#include "data/file/json_list_scanner.h"
#include "data/file/jsonl_scanner.h"
#include "data/file/list_source.h"
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

absl::StatusOr<FileKind> KindByContent(PeekableBytes& bytes, const std::string& file) {
  FTUNE_ASSIGN_OR_RETURN(const std::string_view begin, bytes.Peek(kLayoutBytes));
  const JsonLayout layout = DetectJsonLayout(begin, begin.size() < kLayoutBytes);
  if (layout != JsonLayout::kNone) return FileKind::kJson;
  return RowError({file},
                  {.message = "neither the name nor the first byte tells what this file holds",
                   .expected = "JSON, or a name that ends with .jsonl, .json, .csv, .tsv, .txt, .parquet or "
                               ".arrow, and .gz or .zst behind that if it is packed"});
}

// Files one after another, each opened when its turn comes.
class FilesReader : public BlockReader {
 public:
  FilesReader(std::vector<DataFile> files, const OpenOptions& options)
      : files_(std::move(files)), options_(options) {}

  absl::StatusOr<std::optional<RowBlock>> Next() override {
    for (; next_ < files_.size(); ++next_) {
      if (!reader_) {
        FTUNE_ASSIGN_OR_RETURN(reader_, OpenFileBlocks(files_[next_], options_));
      }
      FTUNE_ASSIGN_OR_RETURN(std::optional<RowBlock> block, reader_->Next());
      if (block) return block;
      reader_.reset();
    }
    return std::nullopt;
  }

 private:
  std::vector<DataFile> files_;
  OpenOptions options_;
  std::unique_ptr<BlockReader> reader_;  // of files_[next_]; null where that is not opened
  size_t next_ = 0;
};

// `begin`: of the file, which the plugin opens by itself; null: the bytes are in none.
absl::StatusOr<std::unique_ptr<BlockReader>> OpenArrow(const std::string& name, std::string_view begin,
                                                       const DataFile* file) {
  const RowPlace place{name};
  if (DetectPacking(begin) != Packing::kNone) {
    return RowError(place, {.found = "a packed file",
                            .expected = "Parquet or Arrow, which pack by themselves",
                            .hint = "unpack it"});
  }
  FTUNE_RETURN_IF_ERROR(RefuseForeign(begin, /*free_text=*/false, place));
  if (file == nullptr) {
    return RowError(place, {.found = "Parquet or Arrow in a pipe",
                            .expected = "rows that can be read in order",
                            .hint = "write it to a file, or the rows as JSON Lines"});
  }
  return OpenArrowBlocks(name, begin, file->spool ? StrCat("/proc/self/fd/", file->spool->fd()) : file->path);
}

// `file`: what the bytes are of; null for a pipe.
absl::StatusOr<std::unique_ptr<BlockReader>> OpenRows(const std::string& name,
                                                      std::unique_ptr<ByteSource> raw, const DataFile* file,
                                                      const OpenOptions& options) {
  const RowPlace place{name};
  std::optional<FileKind> kind = options.kind ? options.kind : KindByName(name);
  const bool free_text = kind == FileKind::kText || kind == FileKind::kCsv;

  auto bytes = std::make_unique<PeekableBytes>(std::move(raw));
  FTUNE_ASSIGN_OR_RETURN(std::string_view begin, bytes->Peek(kMagicBytes));
  if (!begin.empty() && (kind == FileKind::kArrow || (!free_text && HasArrowMagic(begin)))) {
    return OpenArrow(name, begin, file);
  }
  FTUNE_ASSIGN_OR_RETURN(bytes, Unpacked(std::move(bytes), name));
  FTUNE_ASSIGN_OR_RETURN(begin, bytes->Peek(kMagicBytes));
  if (begin.empty()) return RowError(place, {.found = "an empty file", .expected = kReadable});
  FTUNE_RETURN_IF_ERROR(RefuseForeign(begin, free_text, place));
  if (begin.starts_with(kByteOrderMark)) {
    bytes->Skip(kByteOrderMark.size());
  }

  if (!kind) {
    FTUNE_ASSIGN_OR_RETURN(kind, KindByContent(*bytes, name));
  }
  if (kind == FileKind::kText) return std::make_unique<DocumentReader>(name, std::move(bytes), options);
  std::unique_ptr<RowScanner> scanner;
  if (kind == FileKind::kCsv) {
    scanner = std::make_unique<CsvScanner>(name, CsvSeparatorByName(name));
  } else {
    FTUNE_ASSIGN_OR_RETURN(scanner, MakeJsonScanner(*bytes, name, *kind));
  }
  return std::make_unique<ScannedReader>(name, std::move(bytes), std::move(scanner), options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<BlockReader>> OpenBytesBlocks(const std::string& name,
                                                             std::unique_ptr<ByteSource> bytes,
                                                             const OpenOptions& options) {
  return OpenRows(name, std::move(bytes), nullptr, options);
}

absl::StatusOr<std::unique_ptr<BlockReader>> OpenFileBlocks(const DataFile& file,
                                                            const OpenOptions& options) {
  FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> bytes, OpenFileBytes(file));
  return OpenRows(file.path, std::move(bytes), &file, options);
}

std::unique_ptr<BlockReader> OpenFilesBlocks(std::vector<DataFile> files, const OpenOptions& options) {
  return std::make_unique<FilesReader>(std::move(files), options);
}

absl::StatusOr<std::unique_ptr<BlockReader>> OpenBlocks(const std::string& path, const OpenOptions& options) {
  FTUNE_ASSIGN_OR_RETURN(std::vector<DataFile> files, ListSource(path));
  if (files.size() == 1) return OpenFileBlocks(files.front(), options);
  return OpenFilesBlocks(std::move(files), options);
}

}  // namespace ftune
