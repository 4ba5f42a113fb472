#include "cmd/watch/training_log.h"

#include <algorithm>

namespace ftune {
namespace {

using Json = nlohmann::json;

constexpr size_t kRecentLines = 20;

std::optional<double> Number(const Json& line, const char* key) {
  const auto found = line.find(key);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

int64_t Whole(const Json& line, const char* key, int64_t otherwise) {
  const auto found = line.find(key);
  return found != line.end() && found->is_number_integer() ? found->get<int64_t>() : otherwise;
}

std::string Text(const Json& line, const char* key) {
  const auto found = line.find(key);
  return found != line.end() && found->is_string() ? found->get<std::string>() : "";
}

template <class Entries, class StepOf>
void RemoveAfter(int64_t step, Entries& entries, const StepOf& step_of) {
  while (!entries.empty() && step_of(entries.back()) > step) entries.pop_back();
}

int64_t First(const std::pair<int64_t, double>& entry) { return entry.first; }
int64_t FirstOf(const std::pair<int64_t, int64_t>& entry) { return entry.first; }

}  // namespace

bool TrainingLog::Take() {
  const LogTail::News news = tail_.Take();
  if (news.anew) known_ = Known();
  for (const Json& line : news.lines) Read(line);
  return news.anew || !news.lines.empty();
}

void TrainingLog::Read(const Json& line) {
  const std::string event = Text(line, "event");
  const int64_t step = Whole(line, "step", 0);
  known_.attempt = static_cast<int>(Whole(line, "attempt", known_.attempt));
  known_.time = Number(line, "time").value_or(known_.time);
  known_.exit.reset();
  if (event == "start") {
    GoBackTo(step);
    known_.begun_attempt = known_.attempt;
    const int64_t total = Whole(line, "total_steps", -1);
    if (total >= 0) known_.figures.total_steps = total;
  } else if (event == "train") {
    Step(line);
  } else if (event == "skip") {
    known_.figures.step = step;
  } else if (event == "eval") {
    const std::optional<double> loss = Number(line, "eval_loss");
    RemoveAfter(step - 1, known_.evals, First);
    if (loss) known_.evals.emplace_back(step, *loss);
    known_.figures.eval_loss = loss;
  } else if (event == "save") {
    Save(line);
  } else if (event == "restart") {
    ++known_.restarts;
    GoBackTo(step);
  } else if (event == "end") {
    known_.exit = static_cast<int>(Whole(line, "exit", 0));
    known_.figures.seconds_left.reset();
  }
}

void TrainingLog::Step(const Json& line) {
  TrainingFigures& f = known_.figures;
  const int64_t step = Whole(line, "step", 0);
  RemoveAfter(step - 1, known_.tokens, FirstOf);
  const auto [before, tokens] = known_.tokens.empty() ? std::pair<int64_t, int64_t>() : known_.tokens.back();
  // With log.every above 1 the steps in between are taken to be like this one.
  f.tokens = tokens + Whole(line, "tokens", 0) * (step - before);
  known_.tokens.emplace_back(step, f.tokens);
  f.step = step;
  f.loss = Number(line, "loss");
  f.epoch = Number(line, "epoch");
  f.learning_rate = Number(line, "lr");
  f.grad_norm = Number(line, "grad_norm");
  f.tokens_per_second = Number(line, "tokens_per_second");
  f.step_seconds = Number(line, "step_seconds");
  f.data_wait_seconds = Number(line, "data_wait_seconds");
  f.memory.clear();
  if (const auto memory = line.find("memory"); memory != line.end() && memory->is_object()) {
    for (const auto& [kind, bytes] : memory->items()) {
      if (bytes.is_number_integer()) f.memory[kind] = bytes.get<int64_t>();
    }
  }
  f.memory_rank = static_cast<int>(Whole(line, "memory_rank", 0));
  EstimateTimeLeft(step);
}

// By the clock, so that evaluations and checkpoints count.
void TrainingLog::EstimateTimeLeft(int64_t step) {
  known_.recent.emplace_back(step, known_.time);
  if (known_.recent.size() > kRecentLines) known_.recent.pop_front();
  const auto [first, begin] = known_.recent.front();
  if (!known_.figures.total_steps) return;
  const double left = static_cast<double>(*known_.figures.total_steps - step);
  if (step > first) {
    known_.figures.seconds_left = left * (known_.time - begin) / static_cast<double>(step - first);
  } else if (known_.figures.step_seconds) {
    known_.figures.seconds_left = left * *known_.figures.step_seconds;
  }
}

void TrainingLog::Save(const Json& line) {
  if (!line.contains("bytes")) return;  // a result, or a checkpoint that could not be written
  const SavedPoint point = {.step = Whole(line, "step", 0), .path = Text(line, "path"), .time = known_.time};
  RemoveAfter(point.step - 1, known_.saves, [](const SavedPoint& save) { return save.step; });
  known_.saves.push_back(point);
  known_.figures.checkpoint = point;
}

void TrainingLog::GoBackTo(int64_t step) {
  known_.recent.clear();
  known_.figures.seconds_left.reset();
  RemoveAfter(step, known_.saves, [](const SavedPoint& save) { return save.step; });
  RemoveAfter(step, known_.evals, First);
  RemoveAfter(step, known_.tokens, FirstOf);
  TrainingFigures& f = known_.figures;
  f.checkpoint = known_.saves.empty() ? std::optional<SavedPoint>() : known_.saves.back();
  f.eval_loss = known_.evals.empty() ? std::optional<double>() : known_.evals.back().second;
  f.tokens = known_.tokens.empty() ? 0 : known_.tokens.back().second;
  if (f.step != step) {
    f.loss = f.epoch = f.learning_rate = f.grad_norm = std::nullopt;
    f.tokens_per_second = f.step_seconds = f.data_wait_seconds = std::nullopt;
  }
  f.step = step;
}

}  // namespace ftune
