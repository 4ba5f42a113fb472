#include "cmd/train/last_words.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>

#include "base/error.h"
#include "cmd/command.h"
#include "cmd/train/rank_report.h"

namespace ftune {
namespace {

// A handler has no arguments. Set once, before there are other threads.
struct LastWords {
  std::string who;
  bool supervised = false;
  // Given up when the words are made, which takes some memory.
  std::unique_ptr<char[]> reserve;
};
LastWords* last_words = nullptr;

[[noreturn]] void End() {
  static std::atomic_flag ending;
  // Another thread that ends at the same time waits for the words of the first.
  while (ending.test_and_set()) pause();
  const std::optional<absl::Status> error =
      std::current_exception() ? CaughtError(last_words->who) : std::nullopt;
  if (!error) std::abort();
  last_words->reserve.reset();
  if (last_words->supervised) {
    SendReport(*error);
  } else {
    ReportError(*error, /*json=*/false);
  }
  _exit(ExitCodeOf(*error));
}

}  // namespace

void ReportWhatEndsProcess(const std::string& who, bool supervised) {
  constexpr size_t kReserve = 64 << 10;
  static LastWords words;
  words = {.who = who, .supervised = supervised, .reserve = std::make_unique<char[]>(kReserve)};
  last_words = &words;
  std::set_terminate(End);
}

}  // namespace ftune
