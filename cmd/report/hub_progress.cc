#include "cmd/report/hub_progress.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_format.h"

namespace ftune {
namespace {

constexpr double kLineEvery = 30.0;  // seconds, where standard error is no terminal

class HubLine {
 public:
  ~HubLine() { Clear(); }

  void Say(const std::string& message) {
    Clear();
    std::fprintf(stderr, "%s\n", message.c_str());
  }

  void Show(const Transfer& transfer) {
    if (transfer.finished) {
      next_ = 0.0;
      return Say(Finished(transfer));
    }
    if (!terminal_ && transfer.seconds < next_) return;
    const double rate = Rate(transfer);
    std::string line = absl::StrFormat("%s: %s of %s", transfer.repo, HumanBytes(transfer.bytes),
                                       HumanBytes(transfer.total));
    if (rate > 0) {
      absl::StrAppendFormat(&line, ", %s/s, %s left", HumanBytes(static_cast<int64_t>(rate)),
                            HumanDuration(static_cast<double>(transfer.total - transfer.bytes) / rate));
    }
    if (!terminal_) {
      next_ = transfer.seconds + kLineEvery;
      return Say(line);
    }
    Clear();
    std::fputs(line.c_str(), stderr);
    drawn_ = true;
    std::fflush(stderr);
  }

 private:
  static double Rate(const Transfer& transfer) {
    const auto came = static_cast<double>(transfer.bytes - transfer.resumed);
    return transfer.seconds > 0 && came > 0 ? came / transfer.seconds : 0.0;
  }

  static std::string Finished(const Transfer& transfer) {
    std::string line = absl::StrFormat("%s: %d %s downloaded, %s in %s", transfer.repo, transfer.files,
                                       transfer.files == 1 ? "file" : "files", HumanBytes(transfer.total),
                                       HumanDuration(transfer.seconds));
    if (transfer.resumed > 0) {
      absl::StrAppendFormat(&line, " (%s of it were here already)", HumanBytes(transfer.resumed));
    }
    return line;
  }

  void Clear() {
    if (drawn_) std::fputs("\r\033[K", stderr);
    drawn_ = false;
  }

  bool terminal_ = isatty(STDERR_FILENO) != 0;
  bool drawn_ = false;
  double next_ = 0.0;  // seconds of a download at which a file is due a line
};

}  // namespace

HubReporter HubProgress(Verbosity verbosity) {
  if (verbosity == Verbosity::kQuiet) return {};
  const auto line = std::make_shared<HubLine>();
  return {.say = [line](const std::string& message) { line->Say(message); },
          .transfer = [line](const Transfer& transfer) { line->Show(transfer); }};
}

}  // namespace ftune
