#include "base/http/backoff.h"

#include <algorithm>
#include <charconv>

namespace ftune {
namespace {

using std::chrono::milliseconds;

constexpr int kTries = 6;           // of a server that answers
constexpr int kTriesToConnect = 3;  // of one that does not
constexpr milliseconds kFirstWait(500), kLongestWait(8000);
constexpr milliseconds kLongestAskedFor(300'000);  // longer than that, a user had better come back

std::optional<milliseconds> RetryAfter(const HttpHead& head) {
  const std::string text = head.Header("retry-after");  // a date, the other form, counts as nothing said
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || seconds < 0) return std::nullopt;
  return milliseconds(std::min<int64_t>(seconds, 1'000'000) * 1000);
}

}  // namespace

bool MayPass(const HttpAnswer& answer) {
  if (!answer.ok()) return answer.failure == HttpFailure::kConnect || answer.failure == HttpFailure::kBroken;
  const int status = answer.head.status;
  return status == 408 || status == 429 || status >= 500;
}

std::optional<milliseconds> Backoff::Next(const HttpAnswer& answer) {
  if (!MayPass(answer)) return std::nullopt;
  ++failures_;
  if (failures_ >= (answer.failure == HttpFailure::kConnect ? kTriesToConnect : kTries)) return std::nullopt;
  if (const std::optional<milliseconds> asked = answer.ok() ? RetryAfter(answer.head) : std::nullopt) {
    if (*asked > kLongestAskedFor) return std::nullopt;
    return asked;
  }
  return std::min(kLongestWait, kFirstWait * (1 << (failures_ - 1)));
}

}  // namespace ftune
