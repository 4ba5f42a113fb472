// Libraries and programs that are looked for when they are needed.

#include <string>
#include <vector>

#include "base/http/http_server_library.h"
#include "base/http/network_library.h"
#include "base/run_program.h"
#include "base/strings.h"
#include "cmd/doctor/host_checks.h"
#include "data/arrow/plugin_loader.h"
#include "parallel/comm/gloo_version.h"

namespace ftune {
namespace {

Check Found(std::string name, std::string what) {
  return {.name = std::move(name), .detail = std::move(what)};
}

// `why`: what it would be for; `needed`: the recipe does that.
Check Missing(std::string name, bool needed, const std::string& found, const std::string& why) {
  return {.name = std::move(name),
          .ok = !needed,
          .detail = StrCat(found, needed ? "; the recipe needs it: " : "; needed only for ", why)};
}

// "OpenSSH_9.2p1 …", by asking it.
Check CheckProgramOnPath(const std::string& name, const std::vector<std::string>& words, bool needed,
                         const std::string& why) {
  const absl::StatusOr<ProgramEnd> end = RunProgram(words);
  if (!end.ok()) return Missing(name, needed, StrCat("no ", words[0], " on PATH"), why);
  const std::string all = end->output + end->errors;
  const std::string said = all.substr(0, all.find('\n'));
  if (end->wait_status != 0) return Missing(name, needed, StrCat(words[0], " does not work: ", said), why);
  return Found(name, said.substr(0, said.find(',')));
}

}  // namespace

// Linked: without it ftune does not start.
Check CheckGloo() { return Found("gloo", GlooVersion()); }

Check CheckNetworkLibrary(bool needed) {
  const absl::StatusOr<Network*> network = LoadNetwork("downloads", "do without them");
  if (network.ok()) return Found("downloads", (*network)->Version());
  return Missing("downloads", needed, InWords(network.status()), "models and data of the hub");
}

// Of the same library, which brings OpenSSL.
Check CheckTls(bool needed) {
  const absl::StatusOr<Network*> network = LoadNetwork("encrypted connections", "leave launch.tls out");
  if (!network.ok()) return Missing("tls", needed, InWords(network.status()), "launch.tls");
  return (*network)->NewTlsIdentity()
             ? Found("tls", "libssl is there, and makes certificates")
             : Missing("tls", needed, "libssl is there, but makes no certificate", "launch.tls");
}

Check CheckMetrics(bool needed) {
  const absl::Status loaded = LoadHttpServer();
  if (loaded.ok()) return Found("metrics", "libftune_server.so is there and loads");
  return Missing("metrics", needed, InWords(loaded), "log.metrics_port");
}

Check CheckArrow(bool needed) {
  const absl::StatusOr<const FtuneArrowPlugin*> plugin = LoadArrowPlugin();
  if (plugin.ok()) return Found("arrow", "ftune-arrow.so is there and loads");
  return Missing("arrow", needed, InWords(plugin.status()), "Parquet and Arrow files");
}

Check CheckSsh(bool needed) { return CheckProgramOnPath("ssh", {"ssh", "-V"}, needed, "launch.hosts"); }

Check CheckSlurm(bool needed) {
  return CheckProgramOnPath("slurm", {"sbatch", "--version"}, needed, "jobs of Slurm");
}

}  // namespace ftune
