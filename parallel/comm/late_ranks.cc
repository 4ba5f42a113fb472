#include "parallel/comm/late_ranks.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

namespace ftune {

std::string LateReport::Encode() const {
  const nlohmann::json json = {{"rank", rank},         {"place", place},
                               {"sequence", sequence}, {"missing", missing},
                               {"call", call},         {"waited", absl::ToInt64Nanoseconds(waited)}};
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::optional<LateReport> LateReport::Decode(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto is_number = [&](const char* key) { return json.contains(key) && json[key].is_number_integer(); };
  if (!json.is_object() || !is_number("rank") || !is_number("place") || !is_number("sequence") ||
      !is_number("waited") || !json.contains("call") || !json["call"].is_string() ||
      !json.contains("missing") || !json["missing"].is_array()) {
    return std::nullopt;
  }
  LateReport report{.rank = json["rank"],
                    .place = json["place"],
                    .sequence = json["sequence"],
                    .call = json["call"],
                    .waited = absl::Nanoseconds(json["waited"].get<int64_t>())};
  for (const nlohmann::json& rank : json["missing"]) {
    if (!rank.is_number_integer()) return std::nullopt;
    report.missing.push_back(rank);
  }
  return report;
}

std::optional<Blame> BlameFor(const std::vector<LateReport>& reports) {
  std::map<int, const LateReport*> of_rank;
  for (const LateReport& report : reports) of_rank[report.rank] = &report;
  std::set<std::pair<int, int>> broken;  // connections
  for (const LateReport& report : reports) {
    for (const int missing : report.missing) {
      const auto found = of_rank.find(missing);
      const LateReport* const theirs = found == of_rank.end() ? nullptr : found->second;
      if (theirs != nullptr && (theirs->place != report.place || theirs->sequence < report.sequence))
        continue;
      broken.insert(std::minmax(report.rank, missing));
    }
  }
  std::map<int, int> failing;  // connections of each
  for (const auto& [a, b] : broken) {
    ++failing[a];
    ++failing[b];
  }
  const auto earlier = [](const LateReport* a, const LateReport* b) {
    return std::tie(a->sequence, a->rank) < std::tie(b->sequence, b->rank);
  };
  std::optional<int> blamed;
  if (failing.empty()) {
    // All wait for one that is elsewhere: as good as any is the one that the earliest call waits for.
    const LateReport* first = nullptr;
    for (const auto& [rank, report] : of_rank) {
      if (!report->missing.empty() && (first == nullptr || earlier(report, first))) first = report;
    }
    if (first != nullptr) blamed = first->missing.front();
  } else {
    const auto worth = [&](const std::pair<const int, int>& entry) {
      return std::make_tuple(entry.second, !of_rank.contains(entry.first), entry.first);
    };
    blamed = std::max_element(failing.begin(), failing.end(), [&](const auto& a, const auto& b) {
               return worth(a) < worth(b);
             })->first;
  }
  if (!blamed) return std::nullopt;
  const LateReport* first = nullptr;
  for (const auto& [rank, report] : of_rank) {
    const bool misses =
        std::find(report->missing.begin(), report->missing.end(), *blamed) != report->missing.end();
    if (misses && (first == nullptr || earlier(report, first))) first = report;
  }
  // It is the one that says that others are missing: then nobody need miss it.
  if (first == nullptr) first = of_rank.at(*blamed);
  return Blame{.rank = *blamed, .call = first->call, .waited = first->waited};
}

}  // namespace ftune
