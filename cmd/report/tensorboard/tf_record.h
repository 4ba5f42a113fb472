// TensorFlow's TFRecord files, a record after the other: length (u64), its checksum, the bytes, their
// checksum.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ftune::tensorboard {

// CRC-32C (Castagnoli's polynomial, as in iSCSI, RFC 3720).
uint32_t Crc32c(std::string_view bytes);

// A record as it stands in the file.
std::string TfRecord(std::string_view bytes);

}  // namespace ftune::tensorboard
