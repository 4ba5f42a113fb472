#include "parallel/launch/slurm/node_list.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "base/error.h"
#include "base/printable.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr size_t kMostNames = 65536;  // Slurm's own limit
constexpr size_t kMostDigits = 18;    // that an int64_t has room for
constexpr char kDigits[] = "0123456789";

absl::Status WrongList(const std::string& variable, std::string_view list, std::string expected) {
  return UsageError({.file = "environment",
                     .key = variable,
                     .found = StrCat("'", Printable(list, kMostShown), "'"),
                     .expected = std::move(expected)});
}

// The parts between commas that are outside of brackets. Nothing where brackets are not closed or nested.
std::optional<std::vector<std::string_view>> SplitOutside(std::string_view text) {
  std::vector<std::string_view> parts;
  bool inside = false;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : ',';
    if ((c == '[' && inside) || (c == ']' && !inside)) return std::nullopt;
    if (c == '[' || c == ']') inside = c == '[';
    if (c != ',' || (inside && i < text.size())) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + 1;
  }
  return inside ? std::nullopt : std::optional(std::move(parts));
}

std::optional<int64_t> Number(std::string_view text) {
  if (text.empty() || text.size() > kMostDigits) return std::nullopt;
  int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || text.front() == '-') return std::nullopt;
  return value;
}

std::string Padded(int64_t number, size_t width) {
  const std::string text = StrCat(number);
  return text.size() < width ? std::string(width - text.size(), '0') + text : text;
}

// What "1-3,05" stands for. Nothing where it is no such text, or more than kMostNames.
std::optional<std::vector<std::string>> ExpandRanges(std::string_view text) {
  std::vector<std::string> numbers;
  for (;;) {
    const size_t end = std::min(text.find(','), text.size());
    const std::string_view range = text.substr(0, end);
    const size_t dash = std::min(range.find('-'), range.size());
    const std::string_view low = range.substr(0, dash);
    const std::optional<int64_t> first = Number(low);
    const std::optional<int64_t> last = dash == range.size() ? first : Number(range.substr(dash + 1));
    if (!first || !last || *last < *first || *last - *first >= static_cast<int64_t>(kMostNames))
      return std::nullopt;
    for (int64_t number = *first; number <= *last; ++number) numbers.push_back(Padded(number, low.size()));
    if (numbers.size() > kMostNames) return std::nullopt;
    if (end == text.size()) return numbers;
    text.remove_prefix(end + 1);
  }
}

bool IsNamePart(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' ||
           c == '_' || c == '.' || c >= 0x80;
  });
}

// One item of a list: names with brackets in them, of which the first varies slowest.
std::optional<std::vector<std::string>> ExpandItem(std::string_view item) {
  if (item.empty() || item.front() == '-') return std::nullopt;  // no option of a program
  std::vector<std::string> names = {""};
  while (!item.empty()) {
    const size_t open = std::min(item.find('['), item.size());
    if (!IsNamePart(item.substr(0, open))) return std::nullopt;
    for (std::string& name : names) name.append(item.substr(0, open));
    if (open == item.size()) break;
    const size_t close = item.find(']');
    const auto numbers = ExpandRanges(item.substr(open + 1, close - open - 1));
    if (!numbers || names.size() * numbers->size() > kMostNames) return std::nullopt;
    std::vector<std::string> longer;
    for (const std::string& name : names) {
      for (const std::string& number : *numbers) longer.push_back(name + number);
    }
    names = std::move(longer);
    item.remove_prefix(close + 1);
  }
  return names;
}

// A name that ends with a number.
struct Numbered {
  std::string_view stem;
  std::string_view digits;
};
std::optional<Numbered> SplitNumber(std::string_view name) {
  const size_t last = name.find_last_not_of(kDigits);
  const size_t begin = std::max(last == std::string_view::npos ? 0 : last + 1,
                                name.size() - std::min(name.size(), kMostDigits));
  if (begin == 0 || begin == name.size()) return std::nullopt;
  return Numbered{name.substr(0, begin), name.substr(begin)};
}

// Numbers that stand between the same brackets.
struct Group {
  std::string stem;
  struct Range {
    std::string low, high;
    int64_t last;
  };
  std::vector<Range> ranges;

  void Add(std::string_view digits) {
    const int64_t number = *Number(digits);
    if (!ranges.empty() && number == ranges.back().last + 1 &&
        Padded(number, ranges.back().low.size()) == digits) {
      ranges.back().high = std::string(digits);
      ranges.back().last = number;
    } else {
      ranges.push_back({std::string(digits), std::string(digits), number});
    }
  }
  std::string Text() const {
    std::vector<std::string> texts;
    for (const Range& range : ranges) {
      texts.push_back(range.low == range.high ? range.low : StrCat(range.low, "-", range.high));
    }
    const bool one = ranges.size() == 1 && ranges[0].low == ranges[0].high;
    return one ? StrCat(stem, texts[0]) : StrCat(stem, "[", StrJoin(texts, ","), "]");
  }
};

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandNodeList(std::string_view list, const std::string& variable) {
  const std::string expected = "a list of nodes as Slurm writes it, such as 'node[01-03],login'";
  const auto items = SplitOutside(list);
  if (!items) return WrongList(variable, list, expected);
  std::vector<std::string> names;
  for (const std::string_view item : *items) {
    const auto more = ExpandItem(item);
    if (!more || names.size() + more->size() > kMostNames) return WrongList(variable, list, expected);
    names.insert(names.end(), more->begin(), more->end());
  }
  return names;
}

std::string FoldNodeList(const std::vector<std::string>& names) {
  std::vector<std::string> items;
  std::optional<Group> group;
  const auto close = [&] {
    if (group) items.push_back(group->Text());
    group.reset();
  };
  for (const std::string& name : names) {
    const std::optional<Numbered> numbered = SplitNumber(name);
    if (!group || !numbered || group->stem != numbered->stem) close();
    if (!numbered) {
      items.push_back(name);
      continue;
    }
    if (!group) group = Group{.stem = std::string(numbered->stem)};
    group->Add(numbered->digits);
  }
  close();
  return StrJoin(items, ",");
}

absl::StatusOr<std::vector<int>> ExpandCounts(std::string_view list, const std::string& variable) {
  std::vector<int> counts;
  const auto wrong = [&] {
    return WrongList(variable, list, "counts as Slurm writes them, such as '2(x3),1'");
  };
  for (std::string_view rest = list;;) {
    const size_t end = std::min(rest.find(','), rest.size());
    const std::string_view item = rest.substr(0, end);
    const size_t open = std::min(item.find("(x"), item.size());
    const std::optional<int64_t> count = Number(item.substr(0, open));
    std::optional<int64_t> times = 1;
    if (open < item.size()) {
      if (!item.ends_with(')')) return wrong();
      times = Number(item.substr(open + 2, item.size() - open - 3));
    }
    const auto most = static_cast<int64_t>(kMostNames);
    if (!count || !times || *count > most || *times < 1 || *times + std::ssize(counts) > most) return wrong();
    counts.insert(counts.end(), *times, static_cast<int>(*count));
    if (end == rest.size()) return counts;
    rest.remove_prefix(end + 1);
  }
}

}  // namespace ftune
