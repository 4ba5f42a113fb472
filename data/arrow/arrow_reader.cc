#include "data/arrow/arrow_reader.h"

#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "data/arrow/plugin_abi.h"
#include "data/arrow/plugin_loader.h"

namespace ftune {
namespace {

constexpr size_t kBlockBytes = size_t{4} << 20;
constexpr size_t kBlockRows = 65536;
constexpr char kExpected[] = "a Parquet or Arrow file";
constexpr char kEncryptedMagic[] = "PARE";
constexpr char kFeather1Magic[] = "FEA1";

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

std::optional<FtuneArrowFormat> FormatOf(std::string_view begin) {
  for (const Magic& magic : kMagics) {
    if (begin.starts_with(magic.bytes)) return magic.format;
  }
  return std::nullopt;
}

absl::StatusOr<FtuneArrowFormat> DetectFormat(std::string_view begin, const std::string& file) {
  if (const auto format = FormatOf(begin)) return *format;
  if (begin.starts_with(kEncryptedMagic)) {
    return RowError({file}, {.found = "an encrypted Parquet file",
                             .expected = "one that is not",
                             .hint = "write it anew without encryption"});
  }
  if (begin.starts_with(kFeather1Magic)) {
    return RowError({file}, {.found = "a file of the first version of Feather",
                             .expected = kExpected,
                             .hint = "write it anew as Feather 2 or Parquet"});
  }
  return RowError({file}, {.found = "something else", .expected = kExpected});
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
    for (size_t i = 0; i < rows.bad_count; ++i) {
      block.bad_rows.emplace(static_cast<size_t>(rows.bad[i].row - rows.first_row),
                             FileError(file_, rows.bad[i]));
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

bool HasArrowMagic(std::string_view begin) {
  return FormatOf(begin).has_value() || begin.starts_with(kEncryptedMagic) ||
         begin.starts_with(kFeather1Magic);
}

absl::StatusOr<std::unique_ptr<BlockReader>> OpenArrowBlocks(const std::string& file, std::string_view begin,
                                                             const std::string& path) {
  FTUNE_ASSIGN_OR_RETURN(const FtuneArrowFormat format, DetectFormat(begin, file));
  const absl::StatusOr<const FtuneArrowPlugin*> plugin = LoadArrowPlugin();
  if (!plugin.ok()) {
    ErrorDetail detail = DetailOf(plugin.status()).value_or(ErrorDetail{});
    if (!detail.file.empty()) detail.message = StrCat(detail.file, ": ", detail.message);
    detail.file = file;
    return DataError(std::move(detail));
  }
  FtuneArrowError error{};
  FtuneArrowHandle* handle = (*plugin)->open(path.c_str(), format, &error);
  if (handle == nullptr) return FileError(file, error);
  return std::make_unique<ArrowBlockReader>(file, **plugin, handle);
}

}  // namespace ftune
