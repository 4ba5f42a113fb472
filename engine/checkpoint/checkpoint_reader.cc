#include "engine/checkpoint/checkpoint_reader.h"

#include <optional>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"

namespace ftune {
namespace {

class MappedBytes final : public CheckpointBytes {
 public:
  MappedBytes(std::filesystem::path folder, const std::vector<CheckpointFile>& files)
      : folder_(std::move(folder)), files_(files), mapped_(files.size()) {}

  absl::StatusOr<const std::byte*> Read(size_t file, int64_t offset, int64_t count) override {
    std::optional<MappedFile>& mapped = mapped_[file];
    if (!mapped) {
      FTUNE_ASSIGN_OR_RETURN(mapped, MappedFile::Open(folder_ / files_[file].name));
    }
    if (offset + count > std::ssize(mapped->bytes())) {
      return DataError(
          {.file = mapped->path().string(), .message = "the file was cut off while it was read"});
    }
    return mapped->bytes().data() + offset;
  }

 private:
  std::filesystem::path folder_;
  std::vector<CheckpointFile> files_;
  std::vector<std::optional<MappedFile>> mapped_;
};

}  // namespace

std::unique_ptr<CheckpointBytes> MapCheckpointFiles(const std::filesystem::path& folder,
                                                    const Manifest& manifest) {
  return std::make_unique<MappedBytes>(folder, manifest.files);
}

absl::StatusOr<CheckpointReader> CheckpointReader::Open(const std::filesystem::path& folder) {
  FTUNE_ASSIGN_OR_RETURN(Manifest manifest, InspectCheckpoint(folder));
  std::unique_ptr<CheckpointBytes> bytes = MapCheckpointFiles(folder, manifest);
  return CheckpointReader(std::move(manifest), std::move(bytes));
}

CheckpointReader::CheckpointReader(Manifest manifest, std::unique_ptr<CheckpointBytes> bytes)
    : manifest_(std::move(manifest)), bytes_(std::move(bytes)) {}

absl::Status CheckpointReader::Read(const CheckpointTensor& tensor, const Region& region, std::byte* out) {
  const int64_t element = BytesFor(tensor.dtype, 1);
  for (const CheckpointSlice& slice : tensor.slices) {
    const Region shared = Intersect(slice.region, region);
    if (shared.elements() == 0) continue;
    // Of the slice the rows that are needed, whole.
    Region rows = slice.region;
    rows.begin[0] = shared.begin[0];
    rows.size[0] = shared.size[0];
    const int64_t row_bytes = slice.region.elements() / slice.region.size[0] * element;
    const int64_t offset = slice.offset + (shared.begin[0] - slice.region.begin[0]) * row_bytes;
    FTUNE_ASSIGN_OR_RETURN(const std::byte* source,
                           bytes_->Read(slice.file, offset, rows.size[0] * row_bytes));
    CopyShared(tensor.dtype, rows, source, region, out);
  }
  return absl::OkStatus();
}

}  // namespace ftune
