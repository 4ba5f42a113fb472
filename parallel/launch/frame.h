// What a launcher and its agents tell each other: a stream of frames, each a kind, some facts and some bytes.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace ftune {

struct Frame {
  std::string kind;
  nlohmann::json facts = nlohmann::json::object();
  std::string bytes;
};

// On the wire: two 32-bit lengths, little-endian, then {"kind": …, the facts} as JSON, then the bytes.
std::string EncodeFrame(const Frame& frame);

// Before its first frame an agent writes this line: whatever a login shell has printed comes before it.
inline constexpr std::string_view kFramesBegin = "ftune-agent frames 1\n";

// Takes a stream apart, in whatever pieces it comes.
class FrameReader {
 public:
  // Whether the stream begins with kFramesBegin, and noise before it.
  explicit FrameReader(bool awaits_begin) : awaits_begin_(awaits_begin) {}

  void Add(std::string_view bytes) { bytes_.append(bytes); }
  // The next frame; nothing where more must come first. An error where the stream is no frames: it is of no
  // use from there on.
  absl::StatusOr<std::optional<Frame>> Next();
  // Whether there may be frames: not before kFramesBegin, where that is awaited.
  bool begun() const { return !awaits_begin_; }
  // What came instead of frames: the end of it, as a person may read it.
  std::string Noise() const;

 private:
  absl::Status SkipNoise();

  bool awaits_begin_;
  std::string bytes_;
  std::string noise_;
};

}  // namespace ftune
