#include "cmd/watch/metrics_text.h"

#include <array>
#include <cmath>
#include <initializer_list>
#include <optional>
#include <string_view>
#include <utility>

#include "base/strings.h"

namespace ftune {
namespace {

using Labels = std::initializer_list<std::pair<std::string_view, std::string>>;

std::string Escaped(std::string_view value) {
  std::string text;
  for (const char c : value) {
    if (c == '\\' || c == '"') text += '\\';
    text += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return text;
}

std::string NumberText(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return StrCat(value);
}

class Text {
 public:
  // Samples that follow are of this family. Its head is written before the first.
  void Family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    head_ = StrCat("# HELP ", name, " ", help, "\n# TYPE ", name, " ", type, "\n");
  }

  void Sample(Labels labels, double value) {
    text_ += std::exchange(head_, "");
    text_ += name_;
    if (labels.size() > 0) {
      std::string all;
      for (const auto& [label, of] : labels) {
        StrAppend(all, all.empty() ? "" : ",", label, "=\"", Escaped(of), "\"");
      }
      StrAppend(text_, "{", all, "}");
    }
    StrAppend(text_, " ", NumberText(value), "\n");
  }

  void Gauge(std::string_view name, std::optional<double> value, std::string_view help) {
    Family(name, "gauge", help);
    if (value) Sample({}, *value);
  }
  void Counter(std::string_view name, double value, std::string_view help) {
    Family(name, "counter", help);
    Sample({}, value);
  }

  std::string Take() { return std::move(text_); }

 private:
  std::string text_, head_;
  std::string_view name_;
};

void AddTraining(const RunStatus& status, double now, Text& text) {
  const TrainingFigures& figures = status.figures;
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  text.Gauge("ftune_step", number(figures.step), "The last step that is done.");
  text.Gauge("ftune_run_steps",
             figures.total_steps ? std::optional(number(*figures.total_steps)) : std::nullopt,
             "Steps that the run has.");
  text.Gauge("ftune_epoch", figures.epoch, "Epochs of data that are used up.");
  text.Gauge("ftune_loss", figures.loss, "Loss of the last step, a trained token.");
  text.Gauge("ftune_eval_loss", figures.eval_loss, "Loss of the last evaluation, a trained token.");
  text.Gauge("ftune_learning_rate", figures.learning_rate, "Learning rate of the last step.");
  text.Gauge("ftune_grad_norm", figures.grad_norm, "Norm of the last step's gradient, before clipping.");
  text.Gauge("ftune_tokens_per_second", figures.tokens_per_second, "Tokens of the last step by its time.");
  text.Counter("ftune_tokens_total", number(figures.tokens),
               "Tokens that the weights have been trained on; less after the run went back to a checkpoint.");
  text.Gauge("ftune_step_duration_seconds", figures.step_seconds, "Time that the last step took.");
  text.Gauge("ftune_time_left_seconds", figures.seconds_left, "Until the last step, at the present rate.");
  text.Family("ftune_checkpoint_age_seconds", "gauge", "Since the last checkpoint was saved.");
  if (figures.checkpoint) text.Sample({}, now - figures.checkpoint->time);
  text.Family("ftune_checkpoint_step", "gauge", "The step of the last checkpoint.");
  if (figures.checkpoint) text.Sample({}, number(figures.checkpoint->step));
}

void AddRun(const RunStatus& status, Text& text) {
  text.Family("ftune_run_state", "gauge", "1 for the state that the run is in.");
  for (RunState state = RunState::kStarting; state != RunState::kGone;
       state = static_cast<RunState>(static_cast<int>(state) + 1)) {
    text.Sample({{"state", std::string(Name(state))}}, state == status.state ? 1 : 0);
  }
  text.Gauge("ftune_run_start_time_seconds", status.started, "When this ftune began, in Unix time.");
  text.Gauge("ftune_attempt", status.attempt, "How often the run was started, with this time.");
  text.Counter("ftune_restarts_total", status.restarts, "Times that this ftune started the ranks again.");
  text.Family("ftune_host_up", "gauge", "1 for a host that the run has ranks on.");
  for (const HostStatus& host : status.hosts) {
    text.Sample({{"host", host.name}}, host.state == kHostUp ? 1 : 0);
  }
}

void AddRanks(const RunStatus& status, Text& text) {
  const auto each = [&](const auto& add) {
    for (const RankStatus& rank : status.ranks) {
      if (rank.pulse) add(StrCat(rank.rank), *rank.pulse);
    }
  };
  text.Family("ftune_rank_up", "gauge", "1 for a rank that runs.");
  for (const RankStatus& rank : status.ranks) {
    text.Sample({{"rank", StrCat(rank.rank)}, {"host", rank.host}},
                rank.state == RankState::kRunning ? 1 : 0);
  }
  text.Family("ftune_rank_still_seconds", "gauge", "Since the rank has shown anything new.");
  each([&](const std::string& rank, const Pulse& pulse) {
    text.Sample({{"rank", rank}}, pulse.still_seconds);
  });
  text.Family("ftune_step_seconds", "gauge",
              "Of the rank's last step: in computing, waiting for other ranks, waiting for data.");
  each([&](const std::string& rank, const Pulse& pulse) {
    text.Sample({{"rank", rank}, {"part", "compute"}}, pulse.compute_seconds);
    text.Sample({{"rank", rank}, {"part", "wait"}}, pulse.wait_seconds);
    text.Sample({{"rank", rank}, {"part", "data"}}, pulse.data_wait_seconds);
  });
  text.Family(
      "ftune_memory_bytes", "gauge",
      "Of the rank's process (resident); and of what ftune has allocated, at the last step's peak, on "
      "the rank that needs most.");
  each([&](const std::string& rank, const Pulse& pulse) {
    text.Sample({{"rank", rank}, {"kind", "resident"}}, static_cast<double>(pulse.resident_bytes));
  });
  for (const auto& [kind, bytes] : status.figures.memory) {
    text.Sample({{"rank", StrCat(status.figures.memory_rank)}, {"kind", kind}}, static_cast<double>(bytes));
  }
  text.Family("ftune_network_bytes_total", "counter",
              "Sent to other ranks since the rank began, by the kind of call.");
  each([&](const std::string& rank, const Pulse& pulse) {
    for (int kind = 0; kind < kCallKinds; ++kind) {
      if (pulse.network_bytes[kind] == 0) continue;
      text.Sample({{"rank", rank}, {"operation", std::string(Name(static_cast<CallKind>(kind)))}},
                  static_cast<double>(pulse.network_bytes[kind]));
    }
  });
}

void AddGpus(const std::vector<GpuUse>& gpus, Text& text) {
  text.Family("ftune_gpu_utilization_ratio", "gauge", "Share of the last second in which the GPU worked.");
  for (const GpuUse& gpu : gpus) {
    if (gpu.utilization) text.Sample({{"gpu", StrCat(gpu.index)}, {"name", gpu.name}}, *gpu.utilization);
  }
  text.Family("ftune_gpu_memory_used_bytes", "gauge", "Of the GPU's memory, by whom ever.");
  for (const GpuUse& gpu : gpus) {
    text.Sample({{"gpu", StrCat(gpu.index)}, {"name", gpu.name}}, static_cast<double>(gpu.memory_used));
  }
  text.Family("ftune_gpu_memory_bytes", "gauge", "The GPU's memory.");
  for (const GpuUse& gpu : gpus) {
    text.Sample({{"gpu", StrCat(gpu.index)}, {"name", gpu.name}}, static_cast<double>(gpu.memory_total));
  }
}

}  // namespace

std::string MetricsText(const RunStatus& status, const std::vector<GpuUse>& gpus, double now) {
  Text text;
  AddTraining(status, now, text);
  AddRun(status, text);
  AddRanks(status, text);
  AddGpus(gpus, text);
  return text.Take();
}

}  // namespace ftune
