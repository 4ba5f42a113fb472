// Reads a GGUF file's header into a GgufFile; part of base/gguf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/gguf.h"

namespace ftune {

// Bytes of one value of a fixed size; 0 for strings and arrays.
size_t FixedSize(GgufType type);

// A position in bytes that never moves past their end.
class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }

  // False, and nothing is read, if fewer bytes remain than asked for.
  template <class T>
  bool Read(T& value) {
    if (remaining() < sizeof(T)) return false;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return true;
  }
  bool Skip(uint64_t count) {
    if (count > remaining()) return false;
    position_ += count;
    return true;
  }
  // u64 length, then the text.
  bool ReadString(std::string_view& text);

 private:
  std::span<const std::byte> bytes_;
  size_t position_ = 0;
};

// One value of fixed size or a string at the reader's position. False if it does not fit or is no such type.
bool ReadScalar(ByteReader& reader, GgufType type, GgufValue& value);

class GgufParser {
 public:
  explicit GgufParser(GgufFile& file) : file_(file), reader_(file.file_.bytes()) {}
  absl::Status Parse();

 private:
  absl::Status ParsePreamble();
  absl::Status ParseMetadata();
  absl::Status ParseTensorInfos();
  absl::Status PlaceTensors();
  absl::StatusOr<GgufValue> ParseValue(uint32_t type, const std::string& key);
  absl::Status SkipElements(GgufType type, uint64_t count, int depth, const std::string& key);
  absl::Status Truncated(const std::string& key) const;

  GgufFile& file_;
  ByteReader reader_;
  uint64_t tensor_count_ = 0;
  uint64_t metadata_count_ = 0;
  std::vector<uint64_t> offsets_;  // of the tensors, within the data
};

}  // namespace ftune
