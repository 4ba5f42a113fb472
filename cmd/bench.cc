// ftune bench: what this machine's ops and links reach, as an entry of a device that plans are made with.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "cmd/bench/bench_report.h"
#include "cmd/bench/measure_device.h"
#include "cmd/command.h"
#include "cmd/device/device_yaml.h"
#include "cmd/device/measured_device.h"
#include "cmd/model_session.h"
#include "cmd/plan/host_memory.h"
#include "cmd/report/progress.h"

namespace ftune {
namespace {

constexpr char kThreadsFlag[] = "--threads";

struct Options {
  std::optional<int> threads;  // none: as many as there are cores
  std::string out;             // empty: where plans look for it
  std::string disk = ".";
};

absl::StatusOr<std::filesystem::path> FileOf(const Options& options, int threads) {
  if (!options.out.empty()) return options.out;
  std::filesystem::path file = MeasuredFile(threads);
  if (!file.empty()) return file;
  return UsageError({.file = "command line",
                     .key = "--out",
                     .message = "missing, and neither HOME nor XDG_CACHE_HOME says where to keep the entry",
                     .hint = "give a file"});
}

absl::StatusOr<CommandResult> Run(const Options& options, const Invocation& invocation) {
  const int cores = CpuCores();
  const int threads = options.threads.value_or(cores);
  if (threads < 1 || threads > cores) {
    return UsageError({.file = "command line",
                       .key = kThreadsFlag,
                       .found = StrCat(threads),
                       .expected = StrCat("a number from 1 to ", cores, ", the cores that there are")});
  }
  FTUNE_ASSIGN_OR_RETURN(const std::filesystem::path file, FileOf(options, threads));
  if (invocation.verbosity() != Verbosity::kQuiet) {
    std::fprintf(stderr, "measuring %d ranks of %d threads at once, for half a minute or so\n",
                 std::max(1, cores / threads), threads);
  }
  FTUNE_ASSIGN_OR_RETURN(
      const DeviceModel device,
      MeasureDevice({.threads = threads, .host_memory = HostMemory(), .folder = options.disk}));
  if (file.has_parent_path()) FTUNE_RETURN_IF_ERROR(MakeFolder(file.parent_path()));
  FTUNE_RETURN_IF_ERROR(WriteFileAtomic(file, WriteDevice(device)));
  CommandResult result = {.text = StrCat(DeviceText(device), "written to ", file.string(), "\n")};
  result.json = {{"device", DeviceJson(device)}, {"file", file.string()}, {"exit", 0}};
  return result;
}

}  // namespace

void AddBench(CLI::App& app, Invocation& invocation) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "bench", "Measures what this machine reaches, for plans that say how long a step takes");
  command->add_option(
      kThreadsFlag, options->threads,
      "Of a rank, as launch.threads; all cores without. As many ranks as fit are at work at once");
  command->add_option("--out", options->out,
                      "Where to write the entry; without, where `ftune plan` looks for it");
  command->add_option("--disk", options->disk,
                      "A folder on the disk that output_dir will be on; the current one without");
  command->callback([options, &invocation] {
    invocation.run = [options, &invocation] { return Run(*options, invocation); };
  });
}

}  // namespace ftune
