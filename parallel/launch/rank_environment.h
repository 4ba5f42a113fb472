// What a launcher tells a rank: the environment variables of torchrun, which others set as well.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "base/environment.h"

namespace ftune {

// Whose variables say which rank a process is.
enum class RankSource {
  kLauncher,  // torchrun's, which others set as well
  kSlurm,     // those of a step's tasks
};

struct RankEnvironment {
  int rank = 0;              // RANK
  int world_size = 1;        // WORLD_SIZE
  int local_rank = 0;        // LOCAL_RANK: on its host
  int local_world_size = 0;  // LOCAL_WORLD_SIZE; 0 where it is not set
  std::string address;       // MASTER_ADDR
  int port = 0;              // MASTER_PORT
  // Whether the launcher serves the store there (TORCHELASTIC_USE_AGENT_STORE); else rank 0 does.
  bool launcher_serves = false;
  // What all keys in the store begin with: a secret, where ftune started the ranks; else the run and the
  // attempt as torchrun names them, whose store outlives an attempt.
  std::string prefix;
  // This host's address, as other hosts reach it; empty: that of its connection to the store.
  std::string host_address;
  RankSource source = RankSource::kLauncher;
};

// Nothing where none of RANK, WORLD_SIZE and LOCAL_RANK is set. Those that are missing, no numbers or
// contradict each other are an error that names them.
absl::StatusOr<std::optional<RankEnvironment>> ReadRankEnvironment(const EnvironmentReader& environment);

// MASTER_PORT alone, if it is set. An error where it is no port.
absl::StatusOr<std::optional<int>> ReadMasterPort(const EnvironmentReader& environment);

// What ftune itself sets beside them: the store's prefix, and the host's address.
inline constexpr char kStorePrefixVariable[] = "FTUNE_STORE_PREFIX";
inline constexpr char kHostAddressVariable[] = "FTUNE_HOST_ADDRESS";

}  // namespace ftune
