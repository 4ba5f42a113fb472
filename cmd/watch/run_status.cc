#include "cmd/watch/run_status.h"

#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/json_file.h"
#include "base/strings.h"

namespace ftune {
namespace {

using Json = nlohmann::ordered_json;

template <class State, size_t kCount>
using Names = std::array<std::pair<State, std::string_view>, kCount>;

constexpr Names<RunState, 8> kRunStates = {{
    {RunState::kStarting, "starting"},
    {RunState::kRunning, "running"},
    {RunState::kRestarting, "restarting"},
    {RunState::kWaitingForHosts, "waiting for hosts"},
    {RunState::kDone, "done"},
    {RunState::kStopped, "stopped"},
    {RunState::kFailed, "failed"},
    {RunState::kGone, "gone"},
}};
constexpr Names<RankState, 4> kRankStates = {{
    {RankState::kRunning, "running"},
    {RankState::kStopped, "stopped"},
    {RankState::kEnded, "ended"},
    {RankState::kLost, "lost"},
}};

const auto& NamesOf(RunState) { return kRunStates; }
const auto& NamesOf(RankState) { return kRankStates; }

template <class State>
std::string_view NameOf(State state) {
  const auto& names = NamesOf(state);
  return std::find_if(names.begin(), names.end(), [&](const auto& n) { return n.first == state; })->second;
}

// The fields of each struct, for writing and for reading: `visit` is called with the name and the member of
// each. Inline: the fields of a member that may not be there, among those of its owner; with the name of one
// that is always there with it.

template <class Visit>
void Fields(Visit& visit, SavedPoint& point) {
  visit("step", point.step);
  visit("path", point.path);
  visit("time", point.time);
}

template <class Visit>
void Fields(Visit& visit, TrainingFigures& figures) {
  visit("step", figures.step);
  visit("total_steps", figures.total_steps);
  visit("epoch", figures.epoch);
  visit("loss", figures.loss);
  visit("eval_loss", figures.eval_loss);
  visit("learning_rate", figures.learning_rate);
  visit("grad_norm", figures.grad_norm);
  visit("tokens_per_second", figures.tokens_per_second);
  visit("step_seconds", figures.step_seconds);
  visit("data_wait_seconds", figures.data_wait_seconds);
  visit("seconds_left", figures.seconds_left);
  visit("tokens", figures.tokens);
  visit("memory", figures.memory);
  visit("memory_rank", figures.memory_rank);
  visit("checkpoint", figures.checkpoint);
}

template <class Visit>
void Fields(Visit& visit, Pulse& pulse) {
  visit("step", pulse.step);
  visit("total_steps", pulse.total_steps);
  visit("phase", pulse.phase);
  visit("micro_batch", pulse.micro_batch);
  visit("call", pulse.call);
  visit("calls", pulse.calls);
  visit("still_seconds", pulse.still_seconds);
  visit("step_seconds", pulse.step_seconds);
  visit("compute_seconds", pulse.compute_seconds);
  visit("wait_seconds", pulse.wait_seconds);
  visit("data_wait_seconds", pulse.data_wait_seconds);
  visit("resident_bytes", pulse.resident_bytes);
  visit("network_bytes", pulse.network_bytes);
}

template <class Visit>
void Fields(Visit& visit, RankStatus& rank) {
  visit("rank", rank.rank);
  visit("host", rank.host);
  visit("pid", rank.pid);
  visit("state", rank.state);
  visit.Inline("phase", rank.pulse);
}

template <class Visit>
void Fields(Visit& visit, HostStatus& host) {
  visit("name", host.name);
  visit("ranks", host.ranks);
  visit("state", host.state);
}

template <class Visit>
void Fields(Visit& visit, LeaderStatus& leader) {
  visit("host", leader.host);
  visit("identity", leader.identity);
  visit("pid", leader.pid);
  visit("start", leader.start);
  visit("metrics", leader.metrics);
}

template <class Visit>
void Fields(Visit& visit, RunError& error) {
  visit("message", error.message);
  visit("exit", error.exit);
}

template <class Visit>
void Fields(Visit& visit, RunStatus& status) {
  visit("run", status.run);
  visit("state", status.state);
  visit("last_state", status.last_state);
  Fields(visit, status.figures);
  visit("attempt", status.attempt);
  visit("restarts", status.restarts);
  visit("started", status.started);
  visit("updated", status.updated);
  visit("hosts", status.hosts);
  visit("ranks", status.ranks);
  visit("launcher", status.leader);
  visit("error", status.error);
  visit("exit", status.exit);
}

template <class T>
struct IsOptional : std::false_type {};
template <class T>
struct IsOptional<std::optional<T>> : std::true_type {};
template <class T>
struct IsVector : std::false_type {};
template <class T>
struct IsVector<std::vector<T>> : std::true_type {};
template <class T>
inline constexpr bool kIsPlain = std::is_arithmetic_v<T> || std::is_same_v<T, std::string> ||
                                 std::is_same_v<T, std::map<std::string, int64_t>>;
using ByKind = decltype(Pulse::network_bytes);

class Writer {
 public:
  explicit Writer(Json& object) : object_(object) {}

  template <class T>
  void operator()(const char* name, T& value) {
    object_[name] = Encode(value);
  }

  template <class T>
  void Inline(const char* /*name*/, std::optional<T>& value) {
    if (value) Fields(*this, *value);
  }

 private:
  template <class T>
  static Json Encode(T& value) {
    if constexpr (kIsPlain<T>) {
      return value;
    } else if constexpr (std::is_enum_v<T>) {
      return std::string(NameOf(value));
    } else if constexpr (IsOptional<T>::value) {
      return value ? Encode(*value) : Json();
    } else if constexpr (IsVector<T>::value) {
      Json array = Json::array();
      for (auto& item : value) array.push_back(Encode(item));
      return array;
    } else if constexpr (std::is_same_v<T, ByKind>) {
      Json object = Json::object();
      for (int kind = 0; kind < kCallKinds; ++kind) {
        if (value[kind] != 0) object[std::string(Name(static_cast<CallKind>(kind)))] = value[kind];
      }
      return object;
    } else {
      Json object = Json::object();
      Writer fields(object);
      Fields(fields, value);
      return object;
    }
  }

  Json& object_;
};

// Throws what nlohmann throws where a value is of another type.
class Reader {
 public:
  explicit Reader(const Json& object) : object_(object.get_ref<const Json::object_t&>()) {}

  template <class T>
  void operator()(const char* name, T& value) {
    const auto found = object_.find(name);
    if (found != object_.end() && !found->second.is_null()) Decode(found->second, value);
  }

  template <class T>
  void Inline(const char* name, std::optional<T>& value) {
    if (object_.find(name) != object_.end()) Fields(*this, value.emplace());
  }

 private:
  template <class T>
  static void Decode(const Json& json, T& value) {
    if constexpr (kIsPlain<T>) {
      json.get_to(value);
    } else if constexpr (std::is_enum_v<T>) {
      const std::string name = json.get<std::string>();
      for (const auto& [state, its_name] : NamesOf(value)) {
        if (its_name == name) value = state;
      }
    } else if constexpr (IsOptional<T>::value) {
      Decode(json, value.emplace());
    } else if constexpr (IsVector<T>::value) {
      for (const Json& item : json) Decode(item, value.emplace_back());
    } else if constexpr (std::is_same_v<T, ByKind>) {
      for (int kind = 0; kind < kCallKinds; ++kind) {
        value[kind] = json.value(std::string(Name(static_cast<CallKind>(kind))), int64_t{0});
      }
    } else {
      Reader fields(json);
      Fields(fields, value);
    }
  }

  const Json::object_t& object_;
};

}  // namespace

std::string_view Name(RunState state) { return NameOf(state); }
std::string_view Name(RankState state) { return NameOf(state); }

nlohmann::ordered_json ToJson(RunStatus status) {
  Json object = Json::object();
  Writer fields(object);
  Fields(fields, status);
  return object;
}

std::string ToText(const RunStatus& status) {
  return ToJson(status).dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<RunStatus> ParseRunStatus(const std::string& text, const std::string& source) {
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json parsed, ParseJson(text, source));
  RunStatus status;
  try {
    const Json object = parsed;
    Reader fields(object);
    Fields(fields, status);
  } catch (const nlohmann::json::exception& error) {
    return DataError({.file = source, .message = StrCat("this is no status of a run: ", error.what())});
  }
  return status;
}

}  // namespace ftune
