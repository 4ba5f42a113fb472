#include "cmd/report/progress.h"

#include <unistd.h>

#include <cmath>

#include "absl/strings/str_format.h"

namespace ftune {

ProgressStyle StyleOf(std::FILE* out) {
  return isatty(fileno(out)) != 0 ? ProgressStyle::kTerminal : ProgressStyle::kPlain;
}

Progress::~Progress() {
  if (line_drawn_) std::fputc('\n', out_);
}

void Progress::ClearLine() {
  if (line_drawn_) std::fputs(kClearLine, out_);
  line_drawn_ = false;
}

void Progress::DrawPassing(const std::string& line) {
  ClearLine();
  std::fputs(line.c_str(), out_);
  line_drawn_ = style_ == ProgressStyle::kTerminal;
  if (style_ == ProgressStyle::kRelayed) std::fputc(kPassingEnd, out_);
  if (!line_drawn_) std::fputc('\n', out_);
  std::fflush(out_);
}

void Progress::Step(const StepReport& r) {
  if (verbosity_ == Verbosity::kQuiet) return;
  // The first step pays for touching memory: it does not count where there are others.
  ++steps_seen_;
  mean_step_seconds_ = steps_seen_ <= 2 ? r.step_seconds : 0.9 * mean_step_seconds_ + 0.1 * r.step_seconds;
  const double left = mean_step_seconds_ * static_cast<double>(r.total_steps - r.step);
  const std::string line =
      absl::StrFormat("step %d/%d  loss %.4f  lr %.3g  grad norm %.3g  %.0f tok/s  %s  %s left", r.step,
                      r.total_steps, r.loss, r.learning_rate, r.grad_norm, r.tokens_per_second,
                      HumanBytes(r.memory.total()), HumanDuration(left));
  DrawPassing(line);
}

void Progress::Skip(const SkipReport& r) {
  const std::string next =
      r.next_loss_scale == r.loss_scale ? "" : absl::StrFormat("; the next is %g", r.next_loss_scale);
  Say(absl::StrFormat("step %d  skipped: gradients overflow at a loss scale of %g%s", r.step, r.loss_scale,
                      next));
}

void Progress::Eval(const EvalReport& r) {
  Say(absl::StrFormat("step %d  eval loss %.4f  (%d tokens, %s)", r.step, r.loss, r.tokens,
                      HumanDuration(r.seconds)));
}

void Progress::Passing(const std::string& line) {
  if (verbosity_ == Verbosity::kQuiet) return;
  const auto now = std::chrono::steady_clock::now();
  const bool lasts = style_ == ProgressStyle::kPlain;
  if (now - last_passing_ < (lasts ? std::chrono::seconds(10) : std::chrono::milliseconds(100))) return;
  last_passing_ = now;
  DrawPassing(line);
}

void Progress::Say(const std::string& message) {
  if (verbosity_ == Verbosity::kQuiet) return;
  ClearLine();
  std::fprintf(out_, "%s\n", message.c_str());
  std::fflush(out_);
}

std::string HumanDuration(double seconds) {
  const int64_t whole = std::llround(std::max(0.0, seconds));
  if (whole >= 3600) return absl::StrFormat("%d h %02d min", whole / 3600, whole % 3600 / 60);
  if (whole >= 60) return absl::StrFormat("%d min %02d s", whole / 60, whole % 60);
  return absl::StrFormat("%d s", whole);
}

std::string HumanBytes(int64_t bytes) {
  const double mib = static_cast<double>(bytes) / (1 << 20);
  if (mib >= 1024) return absl::StrFormat("%.2f GiB", mib / 1024);
  return mib >= 1 ? absl::StrFormat("%.0f MiB", mib) : absl::StrFormat("%.0f KiB", mib * 1024);
}

}  // namespace ftune
