// tests/golden/quantized/values.safetensors: what bitsandbytes says. See tests/golden/quantized_golden.py.
#pragma once

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "base/convert.h"
#include "base/safetensors.h"
#include "base/strings.h"

namespace ftune {

class QuantizedGolden {
 public:
  QuantizedGolden() : file_(Open()) {}

  // The names before ".input", for tensors that were quantised as matrices.
  std::vector<std::string> Cases() const {
    std::vector<std::string> cases;
    for (const SafetensorsEntry& entry : file_.entries()) {
      if (entry.name.ends_with(".input") && entry.shape.size() == 2) {
        cases.push_back(entry.name.substr(0, entry.name.rfind('.')));
      }
    }
    REQUIRE(cases.size() == 12);
    return cases;
  }
  const SafetensorsEntry& Entry(const std::string& name) const {
    const SafetensorsEntry* entry = file_.Find(name);
    REQUIRE_MESSAGE(entry != nullptr, name);
    return *entry;
  }
  bool Has(const std::string& name) const { return file_.Find(name) != nullptr; }
  std::vector<float> Floats(const std::string& name) const {
    const SafetensorsEntry& entry = Entry(name);
    int64_t count = 1;
    for (const int64_t size : entry.shape) count *= size;
    std::vector<float> values(count);
    ConvertToF32(entry.dtype.value(), entry.bytes.data(), count, values.data());
    return values;
  }
  std::vector<uint8_t> Bytes(const std::string& name) const {
    const SafetensorsEntry& entry = Entry(name);
    std::vector<uint8_t> bytes(entry.bytes.size());
    std::memcpy(bytes.data(), entry.bytes.data(), bytes.size());
    return bytes;
  }

 private:
  static SafetensorsFile Open() {
    auto file = SafetensorsFile::Open(StrCat(FTUNE_SOURCE_DIR, "/tests/golden/quantized/values.safetensors"));
    REQUIRE_MESSAGE(file.ok(), std::string(file.status().message()));
    return *std::move(file);
  }
  SafetensorsFile file_;
};

// The first place where they differ in a bit, or nothing: the sign of zero and NaNs count.
inline std::string BitDifference(const std::vector<float>& got, const std::vector<float>& want) {
  if (got.size() != want.size()) return StrCat(got.size(), " values, not ", want.size());
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::bit_cast<uint32_t>(got[i]) != std::bit_cast<uint32_t>(want[i])) {
      return StrCat("at ", i, ": ", got[i], ", not ", want[i]);
    }
  }
  return "";
}

}  // namespace ftune
