#include "parallel/launch/host_list.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/printable.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr int kMostSlots = 4096;
constexpr char kSpaces[] = " \t\r";
constexpr char kInclude[] = "launch.include";
constexpr char kExclude[] = "launch.exclude";

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words;
  for (;;) {
    line.remove_prefix(std::min(line.find_first_not_of(kSpaces), line.size()));
    if (line.empty()) return words;
    const size_t end = std::min(line.find_first_of(kSpaces), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
}

std::optional<int> Integer(std::string_view text, int least, int most) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || value < least || value > most) return std::nullopt;
  return value;
}

// A name goes to ssh and into lists of names: no options, and nothing that separates.
bool IsHostName(std::string_view name) {
  return !name.empty() && name.front() != '-' && std::all_of(name.begin(), name.end(), [](unsigned char c) {
    return c > ' ' && c != 0x7F && std::string_view("@,;:=\"'").find(c) == std::string_view::npos;
  });
}

std::string Shown(std::string_view text) { return StrCat("'", Printable(text, kMostShown), "'"); }

absl::StatusOr<HostSlots> ParseLine(std::string_view line, const std::string& file, int number) {
  const std::vector<std::string_view> words = Words(line);
  constexpr std::string_view kSlots = "slots=";
  ErrorDetail wrong = {
      .file = file,
      .line = number,
      .found = Shown(line.substr(0, line.find_last_not_of(kSpaces) + 1)),
      .expected = StrCat("a host's name and slots=N, with N from 1 to ", kMostSlots),
      .hint = "write 'node1 slots=4'; comments begin with #",
  };
  if (words.size() > 2 || !IsHostName(words[0])) return UsageError(std::move(wrong));
  HostSlots host = {.name = std::string(words[0])};
  if (words.size() == 1) return host;
  if (!words[1].starts_with(kSlots)) return UsageError(std::move(wrong));
  const std::optional<int> slots = Integer(words[1].substr(kSlots.size()), 1, kMostSlots);
  if (!slots) return UsageError(std::move(wrong));
  host.slots = *slots;
  return host;
}

// A host of a filter, with the slots that are named; none: all of them.
struct Chosen {
  std::string name;
  std::set<int> slots;
};

absl::Status WrongFilter(const char* key, std::string_view found, std::string expected) {
  return UsageError({.key = key,
                     .found = Shown(found),
                     .expected = std::move(expected),
                     .hint = "write hosts joined by @, each with : and slots where not all are meant: "
                             "node1@node2:0,2"});
}

absl::StatusOr<Chosen> ParseChosen(std::string_view part, const char* key,
                                   const std::vector<HostSlots>& hosts) {
  const size_t colon = std::min(part.find(':'), part.size());
  Chosen chosen = {.name = std::string(part.substr(0, colon))};
  const auto host = std::find_if(hosts.begin(), hosts.end(),
                                 [&](const HostSlots& other) { return other.name == chosen.name; });
  if (host == hosts.end()) return WrongFilter(key, part, "a host of launch.hosts or launch.hostfile");
  if (colon == part.size()) return chosen;
  if (host->slots == 0) {
    return WrongFilter(key, part, "no slots, of a host whose number of slots nothing says");
  }
  for (const std::string_view text : Split(part.substr(colon + 1), ',')) {
    const std::optional<int> slot = Integer(text, 0, host->slots - 1);
    if (!slot) {
      return WrongFilter(key, part, StrCat("slots from 0 to ", host->slots - 1, ", which are those it has"));
    }
    chosen.slots.insert(*slot);
  }
  return chosen;
}

absl::StatusOr<std::map<std::string, std::set<int>>> ParseFilter(const std::string& text, const char* key,
                                                                 const std::vector<HostSlots>& hosts) {
  std::map<std::string, std::set<int>> filter;
  for (const std::string_view part : Split(text, '@')) {
    FTUNE_ASSIGN_OR_RETURN(Chosen chosen, ParseChosen(part, key, hosts));
    if (!filter.emplace(chosen.name, std::move(chosen.slots)).second) {
      return WrongFilter(key, part, "each host once");
    }
  }
  return filter;
}

// What a filter leaves of a host: nothing, all of it, or some of its slots.
std::optional<HostSlots> Left(const HostSlots& host, const std::set<int>* named, bool include) {
  if (named == nullptr) return include ? std::nullopt : std::optional(host);
  if (named->empty()) return include ? std::optional(host) : std::nullopt;
  HostSlots left = {.name = host.name};
  for (int slot = 0; slot < host.slots; ++slot) {
    if (named->contains(slot) == include) left.devices.push_back(slot);
  }
  left.slots = static_cast<int>(left.devices.size());
  if (left.slots == host.slots) return host;
  return left.slots > 0 ? std::optional(std::move(left)) : std::nullopt;
}

}  // namespace

absl::StatusOr<std::vector<HostSlots>> ParseHostFile(std::string_view text, const std::string& file) {
  std::vector<HostSlots> hosts;
  std::map<std::string, int> lines;  // of the hosts, 1-based
  int number = 0;
  for (std::string_view line : Split(text, '\n')) {
    ++number;
    line = line.substr(0, line.find('#'));
    if (Words(line).empty()) continue;
    FTUNE_ASSIGN_OR_RETURN(HostSlots host, ParseLine(line, file, number));
    const auto [first, is_new] = lines.emplace(host.name, number);
    if (!is_new) {
      return UsageError(
          {.file = file,
           .line = number,
           .message = StrCat("the host ", Shown(host.name), " is there twice, first on line ", first->second),
           .hint = "keep one line, with all of its slots"});
    }
    hosts.push_back(std::move(host));
  }
  if (hosts.empty()) {
    return UsageError({.file = file,
                       .message = "there is no host in this file",
                       .expected = "a line such as 'node1 slots=4' for each"});
  }
  return hosts;
}

absl::StatusOr<std::vector<HostSlots>> ReadHostFile(const std::string& file) {
  const absl::StatusOr<MappedFile> mapped = MappedFile::Open(file);
  if (mapped.ok()) return ParseHostFile(mapped->text(), file);
  // A wrong recipe, not wrong data.
  std::optional<ErrorDetail> detail = DetailOf(mapped.status());
  return detail ? UsageError(*std::move(detail)) : mapped.status();
}

absl::StatusOr<std::vector<HostSlots>> FilterHosts(std::vector<HostSlots> hosts, const HostFilter& filter) {
  if (filter.include.empty() && filter.exclude.empty()) return hosts;
  if (!filter.include.empty() && !filter.exclude.empty()) {
    return UsageError({.key = kExclude, .message = "given together with launch.include", .hint = "keep one"});
  }
  const bool include = !filter.include.empty();
  const char* const key = include ? kInclude : kExclude;
  const std::string& text = include ? filter.include : filter.exclude;
  FTUNE_ASSIGN_OR_RETURN(const auto named, ParseFilter(text, key, hosts));
  std::vector<HostSlots> left;
  for (const HostSlots& host : hosts) {
    const auto found = named.find(host.name);
    std::optional<HostSlots> rest = Left(host, found == named.end() ? nullptr : &found->second, include);
    if (rest) left.push_back(*std::move(rest));
  }
  if (left.empty()) return WrongFilter(key, text, "one host at least that is left");
  return left;
}

}  // namespace ftune
