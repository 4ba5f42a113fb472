#include "parallel/launch/agent_messages.h"

#include <utility>

#include "base/error.h"
#include "base/strings.h"

namespace ftune::agent {
namespace {

using Json = nlohmann::json;

absl::Status OtherVersion(const std::string& what) {
  return UserError(ExitCode::kRankFailed, {.message = StrCat("an agent's message is not understood: ", what),
                                           .hint = "have the same version of ftune on all hosts"});
}

// What `read` makes of the message; the JSON library says what is wrong by exceptions.
template <class T, class Read>
absl::StatusOr<T> Decode(const Read& read) {
  try {
    return read();
  } catch (const Json::exception& error) {
    return OtherVersion(error.what());
  }
}

double Seconds(absl::Duration duration) { return absl::ToDoubleSeconds(duration); }

}  // namespace

Json Encode(const HostFacts& facts) {
  return {{"version", facts.version},       {"build", facts.build},
          {"identity", facts.identity},     {"name", facts.name},
          {"cores", facts.cores},           {"clock", facts.clock},
          {"client", facts.client_address}, {"server", facts.server_address}};
}

absl::StatusOr<HostFacts> DecodeHostFacts(const Json& json) {
  return Decode<HostFacts>([&] {
    return HostFacts{.version = json.at("version"),
                     .build = json.at("build"),
                     .identity = json.at("identity"),
                     .name = json.at("name"),
                     .cores = json.at("cores"),
                     .clock = json.at("clock"),
                     .client_address = json.at("client"),
                     .server_address = json.at("server")};
  });
}

Json Encode(const StartOrder& order) {
  const SupervisorOptions& supervisor = order.supervisor;
  Json json = {{"folder", order.folder},
               {"ranks", order.ranks},
               {"arguments", order.arguments},
               {"environments", order.environments},
               {"mirrors", order.mirrors},
               {"good", supervisor.good},
               {"until_term", Seconds(supervisor.until_term)},
               {"until_kill", Seconds(supervisor.until_kill)}};
  if (supervisor.stopped_timeout != absl::InfiniteDuration()) {
    json["stopped_timeout"] = Seconds(supervisor.stopped_timeout);
  }
  return json;
}

absl::StatusOr<StartOrder> DecodeStartOrder(const Json& json) {
  FTUNE_ASSIGN_OR_RETURN(
      StartOrder order, Decode<StartOrder>([&] {
        StartOrder order = {
            .folder = json.at("folder"),
            .ranks = json.at("ranks").get<std::vector<int>>(),
            .arguments = json.at("arguments").get<std::vector<std::vector<std::string>>>(),
            .environments = json.at("environments").get<std::vector<std::vector<std::string>>>()};
        order.mirrors = json.at("mirrors").get<bool>();
        SupervisorOptions& supervisor = order.supervisor;
        supervisor.good = json.at("good").get<std::vector<int>>();
        supervisor.until_term = absl::Seconds(json.at("until_term").get<double>());
        supervisor.until_kill = absl::Seconds(json.at("until_kill").get<double>());
        if (json.contains("stopped_timeout")) {
          supervisor.stopped_timeout = absl::Seconds(json.at("stopped_timeout").get<double>());
        }
        return order;
      }));
  const size_t ranks = order.ranks.size();
  if (ranks == 0 || order.arguments.size() != ranks || order.environments.size() != ranks) {
    return OtherVersion("an order to start ranks is not of as many as it says");
  }
  return order;
}

Json Encode(const RankEnd& end) {
  return {{"rank", end.rank},
          {"pid", end.pid},
          {"status", end.wait_status},
          {"report", end.report},
          {"told", end.was_told},
          {"stood_still", end.stood_still},
          {"out_of_memory", end.out_of_memory}};
}

absl::StatusOr<RankEnd> DecodeRankEnd(const Json& json) {
  return Decode<RankEnd>([&] {
    return RankEnd{.rank = json.at("rank"),
                   .pid = json.at("pid"),
                   .wait_status = json.at("status"),
                   .report = json.at("report"),
                   .was_told = json.at("told"),
                   .stood_still = json.at("stood_still"),
                   .out_of_memory = json.at("out_of_memory")};
  });
}

Json Encode(const Pulse& pulse) {
  return {{"step", pulse.step},
          {"total_steps", pulse.total_steps},
          {"phase", pulse.phase},
          {"micro_batch", pulse.micro_batch},
          {"call", pulse.call},
          {"calls", pulse.calls},
          {"still", pulse.still_seconds},
          {"step_seconds", pulse.step_seconds},
          {"compute", pulse.compute_seconds},
          {"wait", pulse.wait_seconds},
          {"data_wait", pulse.data_wait_seconds},
          {"resident", pulse.resident_bytes},
          {"network", pulse.network_bytes},
          {"group", {pulse.group.first, pulse.group.distance, pulse.group.count}},
          {"sequence", pulse.sequence}};
}

absl::StatusOr<Pulse> DecodePulse(const Json& json) {
  return Decode<Pulse>([&] {
    const Json& group = json.at("group");
    return Pulse{.step = json.at("step"),
                 .total_steps = json.at("total_steps"),
                 .phase = json.at("phase"),
                 .micro_batch = json.at("micro_batch"),
                 .call = json.at("call"),
                 .calls = json.at("calls"),
                 .still_seconds = json.at("still"),
                 .step_seconds = json.at("step_seconds"),
                 .compute_seconds = json.at("compute"),
                 .wait_seconds = json.at("wait"),
                 .data_wait_seconds = json.at("data_wait"),
                 .resident_bytes = json.at("resident"),
                 .network_bytes = json.at("network").get<decltype(Pulse::network_bytes)>(),
                 .group = {.first = group.at(0), .distance = group.at(1), .count = group.at(2)},
                 .sequence = json.at("sequence")};
  });
}

}  // namespace ftune::agent
