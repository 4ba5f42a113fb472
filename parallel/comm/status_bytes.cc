#include "parallel/comm/status_bytes.h"

#include <charconv>
#include <vector>

#include "base/strings.h"

namespace ftune {
namespace {

// "5:hello"
void Append(std::string& to, std::string_view text) { StrAppend(to, text.size(), ":", text); }

bool Take(std::string_view& from, std::string& text) {
  size_t size = 0;
  const auto [end, error] = std::from_chars(from.data(), from.data() + from.size(), size);
  if (error != std::errc() || end == from.data() + from.size() || *end != ':') return false;
  from.remove_prefix(static_cast<size_t>(end - from.data()) + 1);
  if (size > from.size()) return false;
  text = from.substr(0, size);
  from.remove_prefix(size);
  return true;
}

}  // namespace

std::string EncodeStatus(const absl::Status& status) {
  std::string bytes;
  Append(bytes, StrCat(status.raw_code()));
  Append(bytes, std::string(status.message()));
  status.ForEachPayload([&](absl::string_view url, const absl::Cord& payload) {
    Append(bytes, {url.data(), url.size()});
    Append(bytes, std::string(payload));
  });
  return bytes;
}

absl::Status DecodeStatus(std::string_view bytes) {
  std::string code_text, message, url, payload;
  if (!Take(bytes, code_text) || !Take(bytes, message)) return absl::OkStatus();
  int code = 0;
  std::from_chars(code_text.data(), code_text.data() + code_text.size(), code);
  absl::Status status(static_cast<absl::StatusCode>(code), message);
  while (Take(bytes, url) && Take(bytes, payload)) status.SetPayload(url, absl::Cord(payload));
  return status;
}

}  // namespace ftune
