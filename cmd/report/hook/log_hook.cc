#include "cmd/report/hook/log_hook.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <iterator>
#include <utility>

#include "absl/time/clock.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/monotonic_clock.h"
#include "base/quiet_thread.h"
#include "base/strings.h"
#include "parallel/launch/supervisor.h"

namespace ftune {
namespace {

constexpr absl::Duration kPoll = absl::Milliseconds(10);
constexpr absl::Duration kSilentWait = absl::Seconds(1);  // for its end, before anything is said
constexpr int kNoSuchCommand = 127;                       // as a shell has it

// For poll.
int Milliseconds(absl::Duration duration) {
  if (duration == absl::InfiniteDuration()) return -1;
  return static_cast<int>(absl::ToInt64Milliseconds(std::max(duration, absl::ZeroDuration()))) + 1;
}

std::string LastLine(const std::filesystem::path& path) {
  const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  if (!file.ok()) return "";
  std::string_view text = file->text();
  while (text.ends_with('\n')) text.remove_suffix(1);
  return std::string(text.substr(text.rfind('\n') + 1));
}

}  // namespace

absl::StatusOr<std::unique_ptr<LogHook>> LogHook::Start(const HookCommand& command, Say say) {
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) return absl::ResourceExhaustedError("no file descriptor is left");
  FTUNE_ASSIGN_OR_RETURN(HookProcess process, HookProcess::Start(command));
  return std::unique_ptr<LogHook>(
      new LogHook(std::move(process), std::move(wake), command.output, std::move(say)));
}

LogHook::LogHook(HookProcess process, Descriptor wake, std::filesystem::path output, Say say)
    : process_(std::move(process)),
      wake_(std::move(wake)),
      output_(std::move(output)),
      say_(std::move(say)),
      thread_(QuietThread([this] { Feed(); })) {}

LogHook::~LogHook() { Finish(); }

absl::Status LogHook::Take(const nlohmann::ordered_json& /*line*/, const std::string& text) {
  bool gone = false;
  bool fits = false;
  {
    const std::lock_guard lock(mutex_);
    gone = gone_;
    fits = waiting_.size() + text.size() <= kMostWaiting;
    if (!gone && fits) waiting_ += text;
  }
  if (gone) {
    SayGone();
  } else if (!fits && left_out_++ == 0) {
    say_("log.hook does not read as fast as lines come: from here on some are left out; log.jsonl has all");
  }
  eventfd_write(wake_.get(), 1);
  return absl::OkStatus();
}

std::optional<std::string> LogHook::TakeWaiting() {
  const std::lock_guard lock(mutex_);
  const bool is_all = waiting_.empty() && deadline_ != absl::InfiniteDuration();
  return is_all ? std::nullopt : std::optional(std::exchange(waiting_, ""));
}

absl::Duration LogHook::UntilDeadline() const {
  const std::lock_guard lock(mutex_);
  return deadline_ - MonotonicNow();
}

void LogHook::Feed() {
  std::string text;
  while (true) {
    if (text.empty()) {
      std::optional<std::string> waiting = TakeWaiting();
      if (!waiting) return;
      text = *std::move(waiting);
    }
    const short wanted = text.empty() ? 0 : POLLOUT;
    pollfd waits[] = {{.fd = process_.input(), .events = wanted}, {.fd = wake_.get(), .events = POLLIN}};
    poll(waits, std::size(waits), Milliseconds(UntilDeadline()));
    eventfd_t wakes = 0;
    if (waits[1].revents != 0) eventfd_read(wake_.get(), &wakes);
    if ((waits[0].revents & (POLLERR | POLLHUP)) != 0) return NoteGone();
    if (UntilDeadline() <= absl::ZeroDuration()) return;
    if ((waits[0].revents & POLLOUT) == 0) continue;
    const ssize_t count = write(process_.input(), text.data(), text.size());
    if (count > 0) text.erase(0, static_cast<size_t>(count));
  }
}

void LogHook::NoteGone() {
  // Who has closed its input is about to end, as a rule: then its status is known.
  const absl::Duration until = MonotonicNow() + kSilentWait;
  while (!process_.Ended() && MonotonicNow() < until) absl::SleepFor(kPoll);
  const std::lock_guard lock(mutex_);
  gone_ = true;
  waiting_.clear();
}

bool LogHook::AwaitEnd(absl::Duration deadline) {
  while (!process_.HasGone()) {
    if (MonotonicNow() >= deadline) return false;
    absl::SleepFor(kPoll);
  }
  return true;
}

void LogHook::SayGone() {
  if (std::exchange(told_, true)) return;
  const std::optional<int> status = process_.Ended();
  if (status) {
    SayEnd(*status);
  } else {
    say_("log.hook has closed its standard input, and gets no more lines; the run goes on without it");
  }
}

void LogHook::SayEnd(int wait_status) {
  const std::string last = LastLine(output_);
  const bool not_found = WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kNoSuchCommand;
  say_(StrCat("log.hook ", DescribeEnd(wait_status), not_found ? ": there is no such command" : "",
              last.empty() ? "" : StrCat(" (", last, ")"), "; what it has printed is in ", output_.string()));
}

void LogHook::Finish() {
  const absl::Duration end = MonotonicNow();
  {
    const std::lock_guard lock(mutex_);
    deadline_ = end + kUntilTerm;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
  process_.CloseInput();
  if (left_out_ > 0) say_(StrCat("log.hook: ", left_out_, " lines were left out, as it did not read them"));
  if (!AwaitEnd(end + kSilentWait)) {
    say_(StrCat("waiting for log.hook to finish, for ", absl::FormatDuration(kUntilTerm), " at most"));
  }
  if (!AwaitEnd(end + kUntilTerm)) {
    say_("log.hook has not finished, and is ended");
    process_.Signal(SIGTERM);
    if (!AwaitEnd(MonotonicNow() + kUntilKill)) process_.Signal(SIGKILL);
    return;
  }
  const std::optional<int> status = process_.Ended();
  if (status && *status != 0 && !std::exchange(told_, true)) SayEnd(*status);
}

}  // namespace ftune
