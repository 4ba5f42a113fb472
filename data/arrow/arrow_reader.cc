#include "data/arrow/arrow_reader.h"

#include <cerrno>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/io_error.h"
#include "base/strings.h"
#include "data/arrow/plugin_abi.h"
#include "data/arrow/plugin_loader.h"

namespace ftune {
namespace {

constexpr size_t kBlockBytes = size_t{4} << 20;
constexpr size_t kBlockRows = 65536;
constexpr char kExpected[] = "a Parquet or Arrow file";
constexpr char kEncryptedHead[] = "PARE";
constexpr char kFeather1Head[] = "FEA1";

// What a file's first bytes say. Arrow streams from before 2019 have no mark and are not known.
struct Magic {
  std::string_view bytes;
  FtuneArrowFormat format;
};
constexpr Magic kMagics[] = {
    {"PAR1", kFtuneArrowParquet},
    {"ARROW1", kFtuneArrowFile},
    {"\xff\xff\xff\xff", kFtuneArrowStream},
};

std::optional<FtuneArrowFormat> FormatOf(std::string_view head) {
  for (const Magic& magic : kMagics) {
    if (head.starts_with(magic.bytes)) return magic.format;
  }
  return std::nullopt;
}

absl::StatusOr<FtuneArrowFormat> DetectFormat(const std::filesystem::path& path) {
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) return IoError(path, "read the file", EISDIR);
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (file == nullptr) return IoError(path, "open the file", errno);
  char buffer[64];
  const std::string_view head(buffer, std::fread(buffer, 1, sizeof(buffer), file.get()));
  if (std::ferror(file.get()) != 0) return IoError(path, "read the file", errno);
  if (const auto format = FormatOf(head)) return *format;

  ErrorDetail detail{.file = path.string(), .expected = kExpected};
  if (head.empty()) {
    detail.found = "an empty file";
  } else if (head.starts_with(kEncryptedHead)) {
    detail.found = "an encrypted Parquet file";
    detail.expected = "one that is not";
    detail.hint = "write it anew without encryption";
  } else if (head.starts_with(kFeather1Head)) {
    detail.found = "a file of the first version of Feather";
    detail.hint = "write it anew as Feather 2 or Parquet";
  } else if (head.starts_with("version https://git-lfs")) {
    detail.found = "a Git LFS pointer in place of the file";
    detail.hint = "obtain the file itself: git lfs pull";
  } else {
    detail.found = "something else";
  }
  return DataError(std::move(detail));
}

absl::Status FileError(const std::string& file, const FtuneArrowError& error) {
  return RowError({file, error.row}, {.key = error.column, .message = error.message});
}

class ArrowBlockReader : public BlockReader {
 public:
  ArrowBlockReader(std::string file, const FtuneArrowPlugin& plugin, FtuneArrowHandle* handle)
      : file_(std::move(file)), plugin_(plugin), handle_(handle, plugin.close) {}

  absl::StatusOr<std::optional<RowBlock>> Next() override {
    FtuneArrowRows rows{};
    FtuneArrowError error{};
    const int32_t result = plugin_.next(handle_.get(), kBlockBytes, kBlockRows, &rows, &error);
    if (result < 0) return FileError(file_, error);
    if (result == 0) {
      if (!any_) return RowError({file_}, {.found = "no rows", .expected = "at least one"});
      return std::nullopt;
    }
    any_ = true;
    RowBlock block{.file = file_, .encoding = RowBlock::Encoding::kJson};
    block.bytes.assign(rows.bytes, rows.ends[rows.count - 1]);
    block.rows.reserve(rows.count);
    size_t begin = 0;
    for (size_t i = 0; i < rows.count; ++i) {
      const size_t size = rows.ends[i] - begin - 1;  // without LF
      block.rows.push_back({begin, size, rows.first_row + static_cast<int64_t>(i)});
      begin = rows.ends[i];
    }
    return block;
  }

 private:
  std::string file_;
  const FtuneArrowPlugin& plugin_;
  std::unique_ptr<FtuneArrowHandle, void (*)(FtuneArrowHandle*)> handle_;
  bool any_ = false;
};

}  // namespace

bool IsArrowHead(std::string_view head) {
  return FormatOf(head).has_value() || head.starts_with(kEncryptedHead) || head.starts_with(kFeather1Head);
}

absl::StatusOr<std::unique_ptr<BlockReader>> OpenArrowBlocks(const std::filesystem::path& path) {
  FTUNE_ASSIGN_OR_RETURN(const FtuneArrowFormat format, DetectFormat(path));
  const absl::StatusOr<const FtuneArrowPlugin*> plugin = LoadArrowPlugin();
  if (!plugin.ok()) {
    ErrorDetail detail = DetailOf(plugin.status()).value_or(ErrorDetail{});
    if (!detail.file.empty()) detail.message = StrCat(detail.file, ": ", detail.message);
    detail.file = path.string();
    return DataError(std::move(detail));
  }
  FtuneArrowError error{};
  FtuneArrowHandle* handle = (*plugin)->open(path.c_str(), format, &error);
  if (handle == nullptr) return FileError(path.string(), error);
  return std::make_unique<ArrowBlockReader>(path.string(), **plugin, handle);
}

}  // namespace ftune
