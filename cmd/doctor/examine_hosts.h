// What `ftune doctor --hosts` finds out: about each host, and about what is between them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cmd/doctor/check.h"
#include "cmd/doctor/host_checks.h"
#include "cmd/recipe/recipe.h"
#include "cmd/report/progress.h"

namespace ftune {

struct HostReport {
  std::string host;
  std::string error;  // why it could not be examined
  Checks checks;
};

// Of a pair of hosts.
struct LinkReport {
  std::string from, to;
  std::string error;
  double round_trip = 0.0;  // seconds
  double there = 0.0;       // bytes a second
  double back = 0.0;

  // What it takes to send 64 MB there and get as much back: by this links are compared.
  double Seconds() const;
};

// Of those that could be measured; null where none could.
const LinkReport* Slowest(const std::vector<LinkReport>& links);
// "0.081 ms there and back, 1180 MB/s there, 1175 MB/s back"
std::string Describe(const LinkReport& link);

struct ClusterReport {
  std::vector<HostReport> hosts;
  std::vector<LinkReport> links;
  Checks between;  // hosts

  bool ok() const;
};

// `launch` says how the hosts are reached.
ClusterReport ExamineHosts(const std::vector<std::string>& names, const LaunchSection& launch,
                           const HostCheckOptions& options, Progress& progress);

}  // namespace ftune
