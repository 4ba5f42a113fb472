#include "base/hub/blob_writer.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/io_error.h"
#include "base/strings.h"

namespace ftune {

BlobWriter::BlobWriter(std::filesystem::path path, const RepoFile& file, Network& network, int descriptor)
    : path_(std::move(path)), file_(file), network_(&network), descriptor_(descriptor) {}

BlobWriter::BlobWriter(BlobWriter&& other) noexcept
    : path_(std::move(other.path_)),
      file_(std::move(other.file_)),
      network_(other.network_),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(other.size_),
      digest_(std::move(other.digest_)) {}

BlobWriter::~BlobWriter() {
  if (descriptor_ >= 0) close(descriptor_);
}

// LFS names content by its SHA-256, git by the SHA-1 of "blob SIZE", a zero byte and the content.
void BlobWriter::StartDigest() {
  digest_ = network_->NewDigest(file_.sha256.empty() ? DigestKind::kSha1 : DigestKind::kSha256);
  if (file_.sha256.empty()) digest_->Add(StrCat("blob ", file_.size, std::string_view("\0", 1)));
}

absl::StatusOr<BlobWriter> BlobWriter::Open(const std::filesystem::path& path, const RepoFile& file,
                                            Network& network) {
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (descriptor < 0) return IoError(path, "create", errno);
  BlobWriter writer(path, file, network, descriptor);
  writer.StartDigest();
  std::vector<char> buffer(size_t{1} << 20);
  while (true) {
    const ssize_t count = read(descriptor, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return IoError(path, "read", errno);
    if (count == 0) break;
    writer.digest_->Add(std::string_view(buffer.data(), static_cast<size_t>(count)));
    writer.size_ += count;
    if (writer.size_ > file.size) {
      FTUNE_RETURN_IF_ERROR(writer.Restart());
      break;
    }
  }
  return writer;
}

absl::Status BlobWriter::Append(std::string_view bytes) {
  if (size_ + static_cast<int64_t>(bytes.size()) > file_.size) {
    return DataError({.file = file_.path,
                      .message = "the server sends more than the file has",
                      .expected = StrCat(file_.size, " bytes")});
  }
  digest_->Add(bytes);
  while (!bytes.empty()) {
    const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return IoError(path_, "write", errno);
    bytes.remove_prefix(static_cast<size_t>(written));
    size_ += written;
  }
  return absl::OkStatus();
}

absl::Status BlobWriter::Restart() {
  if (ftruncate(descriptor_, 0) != 0 || lseek(descriptor_, 0, SEEK_SET) != 0)
    return IoError(path_, "empty", errno);
  size_ = 0;
  StartDigest();
  return absl::OkStatus();
}

bool BlobWriter::Verify() { return digest_->Finish() == file_.etag(); }

absl::Status BlobWriter::Commit(const std::filesystem::path& blob) {
  if (fdatasync(descriptor_) != 0) return IoError(path_, "flush", errno);
  if (rename(path_.c_str(), blob.c_str()) != 0) return IoError(blob, "rename to", errno);
  return absl::OkStatus();
}

}  // namespace ftune
