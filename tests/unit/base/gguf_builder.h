// Makes GGUF files for tests, right ones and, by its parts, wrong ones.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/unit/base/temp_folder.h"

namespace ftune {

inline std::string GgufString(std::string_view text) {
  return Bytes<uint64_t>(text.size()) + std::string(text);
}

class GgufBuilder {
 public:
  // `type` is the number of the value's type, `value` its bytes.
  GgufBuilder& Raw(std::string_view key, uint32_t type, const std::string& value) {
    metadata_ += GgufString(key) + Bytes(type) + value;
    ++metadata_count_;
    return *this;
  }
  GgufBuilder& Int(std::string_view key, uint32_t value) { return Raw(key, 4, Bytes(value)); }
  GgufBuilder& Float(std::string_view key, float value) { return Raw(key, 6, Bytes(value)); }
  GgufBuilder& Bool(std::string_view key, bool value) { return Raw(key, 7, Bytes<uint8_t>(value)); }
  GgufBuilder& Text(std::string_view key, std::string_view value) { return Raw(key, 8, GgufString(value)); }
  GgufBuilder& Texts(std::string_view key, const std::vector<std::string>& values) {
    std::string bytes = Bytes<uint32_t>(8) + Bytes<uint64_t>(values.size());
    for (const std::string& value : values) bytes += GgufString(value);
    return Raw(key, 9, bytes);
  }
  GgufBuilder& Ints(std::string_view key, const std::vector<int32_t>& values) {
    std::string bytes = Bytes<uint32_t>(5) + Bytes<uint64_t>(values.size());
    for (const int32_t value : values) bytes += Bytes(value);
    return Raw(key, 9, bytes);
  }
  GgufBuilder& Floats(std::string_view key, const std::vector<float>& values) {
    std::string bytes = Bytes<uint32_t>(6) + Bytes<uint64_t>(values.size());
    for (const float value : values) bytes += Bytes(value);
    return Raw(key, 9, bytes);
  }
  // `dims` as the file has them: the fastest first.
  GgufBuilder& Tensor(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                      const std::string& data) {
    data_.resize((data_.size() + alignment_ - 1) / alignment_ * alignment_);
    return TensorAt(name, dims, type, data_.size(), data);
  }
  GgufBuilder& TensorAt(std::string_view name, const std::vector<uint64_t>& dims, uint32_t type,
                        uint64_t offset, const std::string& data) {
    infos_ += GgufString(name) + Bytes<uint32_t>(static_cast<uint32_t>(dims.size()));
    for (const uint64_t dim : dims) infos_ += Bytes(dim);
    infos_ += Bytes(type) + Bytes(offset);
    ++tensor_count_;
    data_ += data;
    return *this;
  }
  GgufBuilder& Alignment(uint32_t alignment) {
    alignment_ = alignment;
    return Int("general.alignment", alignment);
  }
  GgufBuilder& Version(uint32_t version) {
    version_ = version;
    return *this;
  }
  // Counts that say more than there is.
  GgufBuilder& TensorCount(uint64_t count) {
    tensor_count_ = count;
    return *this;
  }
  GgufBuilder& MetadataCount(uint64_t count) {
    metadata_count_ = count;
    return *this;
  }

  std::string Build() const {
    std::string file =
        "GGUF" + Bytes(version_) + Bytes(tensor_count_) + Bytes(metadata_count_) + metadata_ + infos_;
    if (!data_.empty()) file.resize((file.size() + alignment_ - 1) / alignment_ * alignment_);
    return file + data_;
  }

 private:
  std::string metadata_;
  std::string infos_;
  std::string data_;
  uint32_t version_ = 3;
  uint64_t tensor_count_ = 0;
  uint64_t metadata_count_ = 0;
  size_t alignment_ = 32;
};

}  // namespace ftune
