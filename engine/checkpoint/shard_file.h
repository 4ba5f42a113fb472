// A file of a checkpoint while it is written: a safetensors file whose bytes are hashed as they pass, and are
// on the disk when it is finished. Past the page cache where the file system can do that: what is written is
// read again only by a run that goes on, and would push out what the run reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/descriptor.h"
#include "base/io_queue.h"
#include "base/safetensors.h"
#include "base/xxh3_stream.h"
#include "engine/checkpoint/manifest.h"

namespace ftune {

// Where each tensor's bytes will be in the file.
struct ShardLayout {
  std::string header;
  std::vector<int64_t> offsets;  // of the tensors, from the beginning of the file
  int64_t bytes = 0;             // of the whole file
};
absl::StatusOr<ShardLayout> LayOutShardFile(const std::string& name,
                                            const std::vector<SafetensorsSpec>& tensors);

class ShardFile {
 public:
  // A new file of `bytes`, for which the disk has room when this returns, where the file system can say so.
  static absl::StatusOr<ShardFile> Create(const std::filesystem::path& path, int64_t bytes);
  ShardFile(ShardFile&&) = default;
  ShardFile& operator=(ShardFile&&) = delete;
  ~ShardFile();  // waits for what is on its way

  // In pieces of any size, from the header on.
  absl::Status Append(std::span<const std::byte> bytes);
  absl::Status Append(const std::string& text) {
    return Append(std::as_bytes(std::span(text.data(), text.size())));
  }
  // Durable when it returns; the folder's entry for it is not.
  absl::StatusOr<CheckpointFile> Finish();

 private:
  // What is given to the disk at once; while it is on its way the next one is filled and hashed.
  struct Piece {
    struct Free {
      void operator()(std::byte* data) const;
    };
    std::unique_ptr<std::byte, Free> data;
    int64_t begin = 0;   // in the file
    int64_t filled = 0;  // bytes
    int64_t done = 0;    // of them on the disk
    bool in_flight = false;
  };

  ShardFile(std::filesystem::path path, Descriptor file, int64_t bytes, bool direct);
  // The piece that is being filled goes on its way, and the next one is free.
  absl::Status PassOn();
  void Submit(size_t piece);
  // Waits until the piece is written.
  absl::Status Settle(size_t piece);
  absl::Status Take(const IoResult& result);
  bool StopBeingDirect();

  std::filesystem::path path_;
  Descriptor file_;
  int64_t bytes_;       // that it will have
  int64_t filled_ = 0;  // that were given
  bool direct_;
  std::vector<Piece> pieces_;
  size_t current_ = 0;              // of pieces_
  std::unique_ptr<IoQueue> queue_;  // of the file
  Xxh3Stream hash_;
};

}  // namespace ftune
