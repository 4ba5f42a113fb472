// ftune doctor [RECIPE]: whether this host, or a recipe's hosts, are fit to train.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/hub/repo.h"
#include "base/strings.h"
#include "cmd/command.h"
#include "cmd/doctor/examine_hosts.h"
#include "cmd/doctor/host_checks.h"
#include "cmd/launch_hosts.h"
#include "cmd/run_options.h"
#include "data/file/file_kind.h"

namespace ftune {
namespace {

constexpr int kFailed = 1;  // a check has

struct Options {
  std::string recipe;
  std::vector<std::string> overrides;
  bool with_hosts = false;
  std::string hosts;  // by commas; empty: the recipe's
};

// What the recipe needs of a host.
HostCheckOptions NeedsOf(const LoadedRecipe& loaded) {
  const Recipe& recipe = loaded.recipe;
  HostCheckOptions needs = {.folder = std::filesystem::absolute(*recipe.output_dir).string()};
  const auto on_hub = [](const std::string& path, RepoKind kind) {
    return ParseHubPath(path, kind) && !Exists(path);
  };
  needs.needs_network = on_hub(recipe.model.path, RepoKind::kModel);
  for (const std::vector<DataSource>* sources : {&recipe.data.train, &recipe.data.eval}) {
    for (const DataSource& source : *sources) {
      needs.needs_network |= on_hub(source.path, RepoKind::kDataset);
      needs.needs_arrow |= KindByName(source.path) == FileKind::kArrow;
    }
  }
  needs.needs_tls = recipe.launch.tls;
  needs.needs_metrics = recipe.log.metrics_port.has_value();
  needs.needs_ssh = KindHere(loaded) == LaunchKind::kSsh;
  needs.needs_slurm = KindHere(loaded) == LaunchKind::kSlurm;
  return needs;
}

absl::StatusOr<std::vector<std::string>> NamesOfHosts(const Options& options,
                                                      const std::optional<LoadedRecipe>& loaded) {
  std::vector<std::string> names;
  if (!options.hosts.empty()) {
    names = absl::StrSplit(options.hosts, ',');
  } else if (loaded) {
    FTUNE_ASSIGN_OR_RETURN(const std::vector<HostSlots> hosts, HostsOf(*loaded));
    for (const HostSlots& host : hosts) names.push_back(host.name);
  }
  const bool named = std::none_of(names.begin(), names.end(), [](const auto& name) { return name.empty(); });
  if (!names.empty() && named) return names;
  return UsageError({.file = "command line",
                     .key = "--hosts",
                     .found = options.hosts.empty() ? "no hosts" : StrCat("'", options.hosts, "'"),
                     .expected = "hosts, as in --hosts node1,node2, or a recipe that names some",
                     .hint = "of launch.kind: slurm they are known in the job alone"});
}

std::string LineOf(const Check& check) {
  return absl::StrFormat("%-5s %-17s %s\n", check.ok ? "ok" : "FAILS", check.name, check.detail);
}

// On several hosts only what fails and what was measured is worth the room.
bool IsShown(const Check& check, Verbosity verbosity) {
  constexpr std::string_view kMeasured[] = {"disk", "memory bandwidth", "matrix products"};
  return !check.ok || verbosity == Verbosity::kVerbose ||
         std::find(std::begin(kMeasured), std::end(kMeasured), check.name) != std::end(kMeasured);
}

std::string TextOf(const ClusterReport& report, Verbosity verbosity) {
  std::string text;
  for (const HostReport& host : report.hosts) {
    StrAppend(text, "host ", host.host, "\n");
    if (!host.error.empty()) StrAppend(text, LineOf({.name = "agent", .ok = false, .detail = host.error}));
    for (const Check& check : host.checks) {
      if (IsShown(check, verbosity)) StrAppend(text, LineOf(check));
    }
  }
  StrAppend(text, "between hosts\n");
  for (const LinkReport& link : report.links) {
    StrAppend(text, LineOf({.name = StrCat(link.from, " - ", link.to),
                            .ok = link.error.empty(),
                            .detail = Describe(link)}));
  }
  for (const Check& check : report.between) StrAppend(text, LineOf(check));
  return text;
}

nlohmann::ordered_json JsonOf(const LinkReport& link) {
  nlohmann::ordered_json json = {{"from", link.from}, {"to", link.to}};
  if (!link.error.empty()) {
    json["error"] = link.error;
    return json;
  }
  json.update({{"round_trip_seconds", link.round_trip},
               {"bytes_per_second", link.there},
               {"bytes_per_second_back", link.back}});
  return json;
}

nlohmann::ordered_json JsonOf(const ClusterReport& report) {
  nlohmann::ordered_json json = {{"checks", report.between},
                                 {"hosts", nlohmann::ordered_json::array()},
                                 {"links", nlohmann::ordered_json::array()}};
  for (const HostReport& host : report.hosts) {
    nlohmann::ordered_json one = {{"host", host.host}, {"checks", host.checks}};
    if (!host.error.empty()) one["error"] = host.error;
    json["hosts"].push_back(std::move(one));
  }
  for (const LinkReport& link : report.links) json["links"].push_back(JsonOf(link));
  const LinkReport* const slowest = Slowest(report.links);
  json["slowest"] = slowest != nullptr ? JsonOf(*slowest) : nullptr;
  return json;
}

CommandResult ResultOf(nlohmann::ordered_json json, std::string text, bool ok) {
  const int exit = ok ? 0 : kFailed;
  json["exit"] = exit;
  return {.json = std::move(json), .text = std::move(text), .exit = exit};
}

absl::StatusOr<CommandResult> Run(Options options, const Invocation& invocation) {
  std::signal(SIGPIPE, SIG_IGN);
  // `--hosts` may stand before the recipe.
  if (options.recipe.empty() && Exists(options.hosts)) options.recipe.swap(options.hosts);
  std::optional<LoadedRecipe> loaded;
  HostCheckOptions checks = {.folder = std::filesystem::current_path().string()};
  if (!options.recipe.empty()) {
    FTUNE_ASSIGN_OR_RETURN(loaded, OpenRecipe(options.recipe, options.overrides));
    checks = NeedsOf(*loaded);
  }
  if (!options.with_hosts) {
    const Checks found = CheckHost(checks);
    std::string text;
    for (const Check& check : found) StrAppend(text, LineOf(check));
    return ResultOf({{"checks", found}}, std::move(text), AllOk(found));
  }
  FTUNE_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesOfHosts(options, loaded));
  // That they were reached shows what is needed for that; and pages are served by the ftune that leads a run.
  checks.needs_ssh = checks.needs_slurm = checks.needs_metrics = false;
  Progress progress(stderr, invocation.verbosity());
  const ClusterReport report =
      ExamineHosts(names, loaded ? loaded->recipe.launch : LaunchSection(), checks, progress);
  return ResultOf(JsonOf(report), TextOf(report, invocation.verbosity()), report.ok());
}

}  // namespace

void AddDoctor(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("doctor", "Checks whether this host, or others, are fit to train");
  command->add_option("RECIPE", options->recipe, "A recipe (YAML), to check what it needs");
  command->add_option("OVERRIDES", options->overrides, "key.sub=value, instead of what the recipe says");
  const CLI::Option* hosts =
      command
          ->add_option(
              "--hosts", options->hosts,
              "Check these hosts (node1,node2), or those of the recipe, and the network between them")
          ->expected(0, 1);
  command->callback([options, hosts, &invocation] {
    options->with_hosts = hosts->count() > 0;
    invocation.run = [options, &invocation] { return Run(*options, invocation); };
  });
}

}  // namespace ftune
