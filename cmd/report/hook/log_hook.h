// Feeds the lines of a run's log to a command of the user's, which may do with them whatever it likes, and as
// slowly: training never waits for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/descriptor.h"
#include "cmd/report/hook/hook_process.h"
#include "cmd/report/log_sink.h"

namespace ftune {

class LogHook final : public LogSink {
 public:
  // After the last line it has so long to end by itself; then it gets SIGTERM, and so much later SIGKILL.
  static constexpr absl::Duration kUntilTerm = absl::Seconds(10);
  static constexpr absl::Duration kUntilKill = absl::Seconds(2);
  // Lines that wait for it; what comes when there are so many is left out.
  static constexpr size_t kMostWaiting = size_t{1} << 18;  // bytes

  using Say = std::function<void(const std::string&)>;

  // Of the program's main thread, as the calls of `say`.
  static absl::StatusOr<std::unique_ptr<LogHook>> Start(const HookCommand& command, Say say);
  // Lets the command finish.
  ~LogHook() override;

  absl::Status Take(const nlohmann::ordered_json& line, const std::string& text) override;

 private:
  LogHook(HookProcess process, Descriptor wake, std::filesystem::path output, Say say);
  // The thread: gives the command what waits for it, until that is all or nobody reads it any more.
  void Feed();
  // What waits; nothing where no more will come.
  std::optional<std::string> TakeWaiting();
  absl::Duration UntilDeadline() const;
  void NoteGone();

  void Finish();
  // False where it is still there when the deadline comes.
  bool AwaitEnd(absl::Duration deadline);
  void SayGone();
  void SayEnd(int wait_status);

  HookProcess process_;  // the thread's, while that runs
  const Descriptor wake_;
  const std::filesystem::path output_;
  const Say say_;
  int64_t left_out_ = 0;  // lines
  bool told_ = false;     // that it has gone
  mutable std::mutex mutex_;
  std::string waiting_;
  bool gone_ = false;                                   // it reads no more
  absl::Duration deadline_ = absl::InfiniteDuration();  // of its end, on MonotonicNow's clock
  std::thread thread_;
};

}  // namespace ftune
