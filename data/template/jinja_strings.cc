#include "data/template/jinja_strings.h"

#include <algorithm>

#include "data/template/jinja_budget.h"
#include "data/template/jinja_unicode.h"

namespace ftune::jinja {
namespace {

// `characters` is sorted.
bool InSet(char32_t c, const std::optional<std::u32string>& characters) {
  return characters.has_value() ? std::binary_search(characters->begin(), characters->end(), c) : IsSpace(c);
}

std::u32string Decode(std::string_view s) {
  std::u32string out;
  char32_t c;
  for (size_t pos = 0; pos < s.size();) {
    pos = NextCodePoint(s, pos, &c);
    out.push_back(c);
  }
  return out;
}

// Offsets [begin, end) of the words between runs of whitespace.
std::vector<std::pair<size_t, size_t>> Words(std::string_view s) {
  std::vector<std::pair<size_t, size_t>> words;
  bool inside = false;
  for (size_t pos = 0; pos < s.size();) {
    char32_t c;
    const size_t next = NextCodePoint(s, pos, &c);
    if (IsSpace(c)) {
      inside = false;
    } else if (!inside) {
      words.emplace_back(pos, next);
      Budget::CheckItems(static_cast<int64_t>(words.size()));
      inside = true;
    } else {
      words.back().second = next;
    }
    pos = next;
  }
  return words;
}

std::vector<Text> SplitWords(const Text& text, int64_t limit, bool from_right) {
  std::vector<std::pair<size_t, size_t>> words = Words(text.bytes());
  const auto count = static_cast<int64_t>(words.size());
  if (limit >= 0 && count > limit) {
    // The rest stays one piece, with the whitespace at its far end.
    if (from_right) {
      const size_t rest_end = words[count - limit - 1].second;
      words.erase(words.begin(), words.end() - limit);
      words.insert(words.begin(), {0, rest_end});
    } else {
      words.resize(limit + 1);
      words.back().second = text.size();
    }
  }
  std::vector<Text> out;
  for (const auto& [begin, end] : words) out.push_back(text.Range(begin, end));
  return out;
}

// Where `separator` occurs in s without overlap, at most `limit` times (< 0: all), ascending.
std::vector<size_t> FindCuts(std::string_view s, std::string_view separator, int64_t limit) {
  std::vector<size_t> cuts;
  for (size_t at = FindText(s, separator);
       at != std::string_view::npos && (limit < 0 || static_cast<int64_t>(cuts.size()) < limit);
       at = FindText(s, separator, at + separator.size())) {
    cuts.push_back(at);
    Budget::CheckItems(static_cast<int64_t>(cuts.size()));
  }
  return cuts;
}

bool IsLineEnd(char32_t c) {
  return (c >= 0x0A && c <= 0x0D) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

}  // namespace

Text Strip(const Text& text, Side side, const std::optional<std::string>& characters) {
  std::optional<std::u32string> set;
  if (characters.has_value()) {
    set = Decode(*characters);
    std::sort(set->begin(), set->end());
  }
  const std::string_view s = text.bytes();
  size_t begin = 0;
  char32_t c;
  if (side != Side::kRight) {
    while (begin < s.size()) {
      const size_t next = NextCodePoint(s, begin, &c);
      if (!InSet(c, set)) break;
      begin = next;
    }
  }
  size_t end = s.size();
  if (side != Side::kLeft) {
    end = begin;
    for (size_t pos = begin; pos < s.size();) {
      pos = NextCodePoint(s, pos, &c);
      if (!InSet(c, set)) end = pos;
    }
  }
  return text.Range(begin, end);
}

std::vector<Text> Split(const Text& text, const std::optional<std::string>& separator, int64_t limit,
                        bool from_right) {
  if (!separator.has_value()) return SplitWords(text, limit, from_right);
  const std::string_view s = text.bytes();
  std::vector<size_t> cuts;
  if (from_right) {
    // rsplit takes separators from the right end: those of the mirrored text from its left end.
    const std::string mirrored(s.rbegin(), s.rend());
    const std::string mirrored_separator(separator->rbegin(), separator->rend());
    cuts = FindCuts(mirrored, mirrored_separator, limit);
    for (size_t& cut : cuts) cut = s.size() - cut - separator->size();
    std::reverse(cuts.begin(), cuts.end());
  } else {
    cuts = FindCuts(s, *separator, limit);
  }
  std::vector<Text> out;
  size_t begin = 0;
  for (size_t cut : cuts) {
    out.push_back(text.Range(begin, cut));
    begin = cut + separator->size();
  }
  out.push_back(text.Range(begin, s.size()));
  return out;
}

std::vector<Text> SplitLines(const Text& text, bool keep_ends) {
  std::vector<Text> out;
  const std::string_view s = text.bytes();
  size_t begin = 0;
  for (size_t pos = 0; pos < s.size();) {
    char32_t c;
    size_t next = NextCodePoint(s, pos, &c);
    if (IsLineEnd(c)) {
      if (c == '\r' && next < s.size() && s[next] == '\n') ++next;
      out.push_back(text.Range(begin, keep_ends ? next : pos));
      Budget::CheckItems(static_cast<int64_t>(out.size()));
      begin = next;
    }
    pos = next;
  }
  if (begin < s.size()) out.push_back(text.Range(begin, s.size()));
  return out;
}

Text Replace(const Text& text, std::string_view from, const Text& to, int64_t count) {
  Text out;
  const std::string_view s = text.bytes();
  size_t begin = 0;
  size_t search = 0;
  while (count != 0) {
    const size_t at = FindText(s, from, search);
    if (at == std::string_view::npos) break;
    out.AppendRange(text, begin, at);
    out.Append(to);
    Budget::CheckText(out.size());
    begin = at + from.size();
    if (count > 0) --count;
    search = begin;
    if (from.empty()) {
      // Python puts `to` before each character and at the end.
      if (at == s.size()) break;
      char32_t c;
      search = NextCodePoint(s, at, &c);
    }
  }
  out.AppendRange(text, begin, s.size());
  return out;
}

Text Join(const Text& separator, const std::vector<Text>& parts) {
  Text out;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) out.Append(separator);
    out.Append(parts[i]);
    Budget::CheckText(out.size());
  }
  return out;
}

Text MapBytes(const Text& text, std::string (*mapping)(std::string_view)) {
  std::string mapped = mapping(text.bytes());
  if (text.runs().empty() || !IsAscii(text.bytes())) return Text(std::move(mapped), text.Merged());
  Text out;
  size_t begin = 0;
  for (const Run& run : text.runs()) {
    out.Append(std::string_view(mapped).substr(begin, run.end - begin), run.tag);
    begin = run.end;
  }
  return out;
}

}  // namespace ftune::jinja
