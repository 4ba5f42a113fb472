// What a person sees of a run on standard error: one line that is redrawn on a terminal, plain lines
// elsewhere.
#pragma once

#include <chrono>
#include <cstdio>
#include <string>

#include "engine/train/reports.h"

namespace ftune {

enum class Verbosity { kQuiet, kNormal, kVerbose };

// What becomes of what is written.
enum class ProgressStyle {
  kPlain,     // nobody draws it: lines
  kTerminal,  // the passing line is drawn over
  kRelayed,   // lines in a file, from which another process draws them on a terminal: see kPassingEnd
};
ProgressStyle StyleOf(std::FILE* out);

// How a passing line ends, but for its '\n', where it is relayed. Beside it a line of text looks as ever.
inline constexpr char kPassingEnd = '\r';
inline constexpr char kClearLine[] = "\r\033[K";

class Progress {
 public:
  Progress(std::FILE* out, Verbosity verbosity) : Progress(out, verbosity, StyleOf(out)) {}
  Progress(std::FILE* out, Verbosity verbosity, ProgressStyle style)
      : out_(out), verbosity_(verbosity), style_(style) {}
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
  void DrawPassing(const std::string& line);

  std::FILE* out_;
  Verbosity verbosity_;
  ProgressStyle style_;
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
