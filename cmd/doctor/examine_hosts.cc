#include "cmd/doctor/examine_hosts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "cmd/train/host_agents.h"
#include "parallel/launch/agent_messages.h"
#include "parallel/launch/random_token.h"

namespace ftune {
namespace {

using Json = nlohmann::json;

constexpr double kBytesCompared = 64e6;

class Examination {
 public:
  Examination(const std::vector<std::string>& names, const LaunchSection& launch, Progress& progress)
      : agents_(names, launch), progress_(progress) {}

  ClusterReport Run(const HostCheckOptions& options) {
    progress_.Passing(absl::StrFormat("reaching %d hosts", agents_->size()));
    wrong_ = agents_.Connect();
    for (const int host : agents_.all()) {
      if (!wrong_.contains(host)) usable_.push_back(host);
    }
    ClusterReport report;
    report.hosts = ExamineEach(options);
    report.links = MeasureLinks();
    report.between = {CheckReached(), CheckClocks(), CheckCores()};
    if (!report.links.empty()) report.between.push_back(CheckLinks(report.links));
    return report;
  }

 private:
  std::vector<HostReport> ExamineEach(const HostCheckOptions& options) {
    progress_.Passing(absl::StrFormat("examining %d hosts", usable_.size()));
    const std::vector<absl::StatusOr<Json>> answers = agents_->Ask(usable_, agent::kExamine, Json(options));
    std::vector<HostReport> reports;
    for (const int host : agents_.all()) {
      HostReport report = {.host = agents_->name(host)};
      const auto place = std::find(usable_.begin(), usable_.end(), host);
      if (place == usable_.end()) {
        report.error = InWords(wrong_.at(host));
      } else if (const absl::StatusOr<Json>& answer = answers[place - usable_.begin()]; answer.ok()) {
        report.checks = answer->at("checks").get<Checks>();
      } else {
        report.error = InWords(answer.status());
        wrong_[host] = answer.status();
      }
      reports.push_back(std::move(report));
    }
    std::erase_if(usable_, [this](int host) { return wrong_.contains(host); });
    return reports;
  }

  // One pair at a time: others would take their part of the network.
  std::vector<LinkReport> MeasureLinks() {
    std::vector<LinkReport> links;
    const size_t pairs = usable_.size() * (usable_.size() - 1) / 2;
    for (size_t to = 1; to < usable_.size(); ++to) {
      const std::string token = RandomToken();
      const absl::StatusOr<Json> listens =
          agents_->Ask({usable_[to]}, agent::kListen, {{"token", token}}).front();
      for (size_t from = 0; from < to; ++from) {
        progress_.Passing(absl::StrFormat("measuring links: %d of %d", links.size() + 1, pairs));
        links.push_back({.from = agents_->name(usable_[from]), .to = agents_->name(usable_[to])});
        const absl::StatusOr<Json> measured =
            listens.ok() ? Measure(usable_[from], usable_[to], token, *listens) : listens.status();
        if (measured.ok()) {
          links.back().round_trip = measured->value("round_trip", 0.0);
          links.back().there = measured->value("sent", 0.0);
          links.back().back = measured->value("received", 0.0);
        } else {
          links.back().error = InWords(measured.status());
        }
      }
    }
    return links;
  }

  absl::StatusOr<Json> Measure(int from, int to, const std::string& token, const Json& listens) {
    const Json question = {
        {"addresses", agents_.AddressesOf(to, {from})}, {"port", listens.value("port", 0)}, {"token", token}};
    return agents_->Ask({from}, agent::kMeasure, question).front();
  }

  Check CheckReached() const {
    Check check = {.name = "hosts", .ok = wrong_.empty()};
    if (wrong_.empty()) {
      check.detail = absl::StrFormat("all %d have this build of ftune", agents_->size());
      return check;
    }
    check.detail = absl::StrFormat("%d of %d cannot be used", wrong_.size(), agents_->size());
    std::string_view separator = ": ";
    for (const auto& [host, why] : wrong_) {
      StrAppend(check.detail, std::exchange(separator, "; "), agents_->name(host), ": ", InWords(why));
    }
    return check;
  }

  Check CheckClocks() const {
    Check check = {.name = "clocks"};
    double most = 0.0;
    for (const int host : usable_) {
      most = std::max(most, std::abs(agents_->facts(host).skew));
      const std::optional<std::string> wrong = agents_.WrongClock(host);
      if (wrong) StrAppend(check.detail, check.detail.empty() ? "" : "; ", *wrong);
    }
    check.ok = check.detail.empty();
    if (check.ok) check.detail = absl::StrFormat("at most %.1f s apart", most);
    return check;
  }

  // Unequal hosts work, but wait for each other.
  Check CheckCores() const {
    std::set<int> counts;
    std::string each;
    for (const int host : usable_) {
      counts.insert(agents_->facts(host).cores);
      StrAppend(each, each.empty() ? "" : ", ", agents_->name(host), " ", agents_->facts(host).cores);
    }
    if (counts.size() > 1) return {.name = "cores", .detail = StrCat("they differ: ", each)};
    return {.name = "cores", .detail = counts.empty() ? "" : StrCat(*counts.begin(), " on each host")};
  }

  static Check CheckLinks(const std::vector<LinkReport>& links) {
    Check check = {.name = "links"};
    for (const LinkReport& link : links) {
      if (link.error.empty()) continue;
      check.ok = false;
      StrAppend(check.detail, link.from, " does not reach ", link.to, ": ", link.error, "; ");
    }
    const LinkReport* const slowest = Slowest(links);
    if (slowest == nullptr) {
      StrAppend(check.detail, "none works: let the hosts reach each other on all ports");
    } else {
      StrAppend(check.detail, "the slowest is between ", slowest->from, " and ", slowest->to, ": ",
                Describe(*slowest));
    }
    return check;
  }

  HostAgents agents_;
  Progress& progress_;
  std::map<int, absl::Status> wrong_;
  std::vector<int> usable_;
};

}  // namespace

double LinkReport::Seconds() const { return round_trip + kBytesCompared / there + kBytesCompared / back; }

const LinkReport* Slowest(const std::vector<LinkReport>& links) {
  const LinkReport* slowest = nullptr;
  for (const LinkReport& link : links) {
    if (link.error.empty() && (slowest == nullptr || link.Seconds() > slowest->Seconds())) slowest = &link;
  }
  return slowest;
}

std::string Describe(const LinkReport& link) {
  if (!link.error.empty()) return link.error;
  return absl::StrFormat("%.3f ms there and back, %.0f MB/s there, %.0f MB/s back", 1e3 * link.round_trip,
                         1e-6 * link.there, 1e-6 * link.back);
}

bool ClusterReport::ok() const {
  return AllOk(between) && std::all_of(hosts.begin(), hosts.end(), [](const HostReport& host) {
           return host.error.empty() && AllOk(host.checks);
         });
}

ClusterReport ExamineHosts(const std::vector<std::string>& names, const LaunchSection& launch,
                           const HostCheckOptions& options, Progress& progress) {
  return Examination(names, launch, progress).Run(options);
}

}  // namespace ftune
