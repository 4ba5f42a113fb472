#include "parallel/launch/frame.h"

#include <bit>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr size_t kLengths = 2 * sizeof(uint32_t);
constexpr uint32_t kLongestFacts = 16 << 20;
constexpr uint32_t kLongestBytes = 256 << 20;
constexpr size_t kMostNoise = 64 << 10;  // before the first frame
constexpr size_t kNoiseShown = 400;

absl::Status NoFrames(const std::string& what) {
  return UserError(ExitCode::kRankFailed, {.message = StrCat("its answer is not that of an agent: ", what),
                                           .hint = "is it the same version of ftune on all hosts?"});
}

}  // namespace

std::string EncodeFrame(const Frame& frame) {
  nlohmann::json facts = frame.facts;
  facts["kind"] = frame.kind;
  const std::string text = facts.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const uint32_t lengths[] = {static_cast<uint32_t>(text.size()), static_cast<uint32_t>(frame.bytes.size())};
  std::string wire(reinterpret_cast<const char*>(lengths), sizeof(lengths));
  wire += text;
  wire += frame.bytes;
  return wire;
}

absl::Status FrameReader::SkipNoise() {
  const size_t begin = bytes_.find(kFramesBegin);
  if (begin != std::string::npos) {
    noise_ += bytes_.substr(0, begin);
    bytes_.erase(0, begin + kFramesBegin.size());
    awaits_begin_ = false;
    return absl::OkStatus();
  }
  // Its end may be the begin of that line.
  if (bytes_.size() >= kFramesBegin.size()) {
    const size_t sure = bytes_.size() - kFramesBegin.size() + 1;
    noise_ += bytes_.substr(0, sure);
    bytes_.erase(0, sure);
  }
  return noise_.size() > kMostNoise ? NoFrames("it prints without an end") : absl::OkStatus();
}

absl::StatusOr<std::optional<Frame>> FrameReader::Next() {
  if (awaits_begin_) FTUNE_RETURN_IF_ERROR(SkipNoise());
  if (awaits_begin_ || bytes_.size() < kLengths) return std::optional<Frame>();
  uint32_t lengths[2];
  std::memcpy(lengths, bytes_.data(), sizeof(lengths));
  if (lengths[0] > kLongestFacts || lengths[1] > kLongestBytes) return NoFrames("a frame is too long");
  const size_t size = kLengths + lengths[0] + lengths[1];
  if (bytes_.size() < size) return std::optional<Frame>();
  const std::string_view text = std::string_view(bytes_).substr(kLengths, lengths[0]);
  nlohmann::json facts = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!facts.is_object() || !facts.contains("kind") || !facts["kind"].is_string()) {
    return NoFrames("a frame has no kind");
  }
  Frame frame{.kind = facts["kind"].get<std::string>(),
              .bytes = bytes_.substr(kLengths + lengths[0], lengths[1])};
  facts.erase("kind");
  frame.facts = std::move(facts);
  bytes_.erase(0, size);
  return std::optional(std::move(frame));
}

std::string FrameReader::Noise() const {
  const std::string all = awaits_begin_ ? noise_ + bytes_ : noise_;
  return all.size() <= kNoiseShown ? all : all.substr(all.size() - kNoiseShown);
}

}  // namespace ftune
