#include "parallel/launch/rank_environment.h"

#include <charconv>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr char kLauncherHint[] =
    "start the ranks with torchrun or another launcher that sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR "
    "and "
    "MASTER_PORT; or set none of them, and ftune starts them";
constexpr int kMostRanks = 1000000;

ErrorDetail At(const char* name) { return {.file = "environment", .key = name}; }

absl::Status Missing(const char* name, const char* given) {
  ErrorDetail detail = At(name);
  detail.message = StrCat("it is not set, but ", given, " is");
  detail.hint = kLauncherHint;
  return UsageError(std::move(detail));
}

absl::StatusOr<std::optional<int>> ReadInteger(const EnvironmentReader& environment, const char* name,
                                               int least, int most) {
  const std::optional<std::string> text = environment(name);
  if (!text) return std::optional<int>();
  int value = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, value);
  if (error == std::errc() && stop == end && value >= least && value <= most) return std::optional(value);
  ErrorDetail detail = At(name);
  detail.found = StrCat("'", *text, "'");
  detail.expected = StrCat("an integer from ", least, " to ", most);
  detail.hint = kLauncherHint;
  return UsageError(std::move(detail));
}

absl::Status Contradiction(const char* name, int value, std::string expected) {
  ErrorDetail detail = At(name);
  detail.found = StrCat(value);
  detail.expected = std::move(expected);
  detail.hint = kLauncherHint;
  return UsageError(std::move(detail));
}

absl::Status CheckBelow(const char* name, int value, const char* limit_name, int limit) {
  if (value < limit) return absl::OkStatus();
  return Contradiction(name, value, StrCat("below ", limit_name, ", which is ", limit));
}

bool IsTrue(const std::optional<std::string>& text) {
  return text && (*text == "1" || Lower(*text) == "true");
}

}  // namespace

absl::StatusOr<std::optional<int>> ReadMasterPort(const EnvironmentReader& environment) {
  return ReadInteger(environment, "MASTER_PORT", 1, 65535);
}

absl::StatusOr<std::optional<RankEnvironment>> ReadRankEnvironment(const EnvironmentReader& environment) {
  FTUNE_ASSIGN_OR_RETURN(const std::optional<int> rank, ReadInteger(environment, "RANK", 0, kMostRanks));
  FTUNE_ASSIGN_OR_RETURN(const std::optional<int> world,
                         ReadInteger(environment, "WORLD_SIZE", 1, kMostRanks));
  FTUNE_ASSIGN_OR_RETURN(const std::optional<int> local,
                         ReadInteger(environment, "LOCAL_RANK", 0, kMostRanks));
  FTUNE_ASSIGN_OR_RETURN(const std::optional<int> local_world,
                         ReadInteger(environment, "LOCAL_WORLD_SIZE", 1, kMostRanks));
  if (!rank && !world && !local) return std::optional<RankEnvironment>();
  const char* const given = rank ? "RANK" : world ? "WORLD_SIZE" : "LOCAL_RANK";
  if (!rank) return Missing("RANK", given);
  if (!world) return Missing("WORLD_SIZE", given);
  if (!local) return Missing("LOCAL_RANK", given);
  FTUNE_RETURN_IF_ERROR(CheckBelow("RANK", *rank, "WORLD_SIZE", *world));
  FTUNE_RETURN_IF_ERROR(CheckBelow("LOCAL_RANK", *local, "WORLD_SIZE", *world));
  if (local_world) {
    FTUNE_RETURN_IF_ERROR(CheckBelow("LOCAL_RANK", *local, "LOCAL_WORLD_SIZE", *local_world));
    if (*local_world > *world) {
      return Contradiction("LOCAL_WORLD_SIZE", *local_world, StrCat("at most WORLD_SIZE, which is ", *world));
    }
  }

  RankEnvironment result{
      .rank = *rank, .world_size = *world, .local_rank = *local, .local_world_size = local_world.value_or(0)};
  if (*world > 1) {
    const std::optional<std::string> address = environment("MASTER_ADDR");
    if (!address) return Missing("MASTER_ADDR", given);
    FTUNE_ASSIGN_OR_RETURN(const std::optional<int> port, ReadMasterPort(environment));
    if (!port) return Missing("MASTER_PORT", given);
    result.address = *address;
    result.port = *port;
  }
  result.launcher_serves = IsTrue(environment("TORCHELASTIC_USE_AGENT_STORE"));
  result.prefix = environment(kStorePrefixVariable)
                      .value_or(StrCat("ftune/", environment("TORCHELASTIC_RUN_ID").value_or("none"), "/",
                                       environment("TORCHELASTIC_RESTART_COUNT").value_or("0"), "/"));
  result.host_address = environment(kHostAddressVariable).value_or("");
  return std::optional(std::move(result));
}

}  // namespace ftune
