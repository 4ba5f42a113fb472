// The content of gzip (RFC 1952) and Zstandard (RFC 8878) files, of one member or frame or of several.
#pragma once

#include <memory>
#include <string>

#include "data/file/byte_source.h"

namespace ftune {

// `file` is named in errors: data that is cut off, damaged or followed by something else. Zeros behind the
// last member, as tapes and archives leave them, are passed over.
std::unique_ptr<ByteSource> UnpackGzip(std::string file, std::unique_ptr<ByteSource> packed);

// Frames that want more than 128 MiB of memory (zstd --long=28 and above) are refused.
std::unique_ptr<ByteSource> UnpackZstd(std::string file, std::unique_ptr<ByteSource> packed);

}  // namespace ftune
