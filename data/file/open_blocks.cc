#include "data/file/open_blocks.h"

#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "data/file/document_reader.h"
#include "data/file/jsonl_scanner.h"
#include "data/file/peekable_bytes.h"

namespace ftune {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr char kReadable[] = "JSON Lines or a .txt document";

}  // namespace

absl::StatusOr<std::unique_ptr<BlockReader>> OpenFileBlocks(const SourceFile& file,
                                                            const OpenOptions& options) {
  const RowPlace place{file.path};
  FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<ByteSource> raw, OpenFileBytes(file));
  auto bytes = std::make_unique<PeekableBytes>(std::move(raw));
  FTUNE_ASSIGN_OR_RETURN(std::string_view begin, bytes->Peek(kMagicBytes));
  if (begin.empty()) return RowError(place, {.found = "an empty file", .expected = kReadable});
  FTUNE_RETURN_IF_ERROR(RefuseForeign(begin, place));
  if (begin.starts_with(kByteOrderMark)) bytes->Skip(kByteOrderMark.size());

  const FileKind kind = options.kind.value_or(KindByName(file.path).value_or(FileKind::kJsonLines));
  if (kind == FileKind::kText) return std::make_unique<DocumentReader>(file.path, std::move(bytes), options);
  return std::make_unique<ScannedReader>(file.path, std::move(bytes), std::make_unique<JsonlScanner>(),
                                         options);
}

absl::StatusOr<std::unique_ptr<BlockReader>> OpenBlocks(const std::string& path, const OpenOptions& options) {
  return OpenFileBlocks({.path = path}, options);
}

}  // namespace ftune
