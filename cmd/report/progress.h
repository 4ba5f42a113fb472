// What a person sees of a run on standard error: one line that is redrawn on a terminal, plain lines
// elsewhere.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "engine/train/reports.h"

namespace ftune {

enum class Verbosity { kQuiet, kNormal, kVerbose };

class Progress {
 public:
  Progress(std::FILE* out, Verbosity verbosity);
  // `terminal`: whether what is written ends up on one.
  Progress(std::FILE* out, Verbosity verbosity, bool terminal);
  ~Progress();

  void Step(const StepReport& report);
  void Skip(const SkipReport& report);
  void Eval(const EvalReport& report);
  // How work that comes before the first step is getting on: a line that is redrawn on a terminal, and
  // elsewhere is printed every ten seconds.
  void Passing(const std::string& line);
  // A message on a line of its own, above the progress line.
  void Say(const std::string& message);

 private:
  void ClearLine();

  std::FILE* out_;
  Verbosity verbosity_;
  bool terminal_;
  bool line_drawn_ = false;
  std::chrono::steady_clock::time_point last_passing_ = std::chrono::steady_clock::now();
  double mean_step_seconds_ = 0.0;
  int64_t steps_seen_ = 0;
};

// "1 h 02 min", "3 min 20 s", "12 s".
std::string HumanDuration(double seconds);
// "36 KiB", "512 MiB", "1.40 GiB".
std::string HumanBytes(int64_t bytes);

}  // namespace ftune
