#include "cmd/train/last_words.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/command.h"
#include "cmd/train/rank_report.h"

namespace ftune {
namespace {

constexpr size_t kReserve = size_t{1} << 20;

// A handler has no arguments. Set once, before there are other threads.
struct LastWords {
  std::string who;
  bool supervised = false;
  std::string without_memory;  // what is said where there is none for more
  // Addresses, without memory, that are given up when the words are made. A thread for which malloc has no
  // arena left takes a page for each piece.
  void* reserve = nullptr;
};
LastWords* last_words = nullptr;

[[noreturn]] void EndWithoutWords() {
  const std::string& words = last_words->without_memory;
  const ssize_t count = write(STDERR_FILENO, words.data(), words.size());
  _exit(count > 0 ? static_cast<int>(ExitCode::kDoesNotFit) : EXIT_FAILURE);
}

[[noreturn]] void End() {
  static std::atomic_flag ending;
  thread_local bool ends = false;
  if (std::exchange(ends, true)) EndWithoutWords();
  // Another thread that ends at the same time waits for the words of the first.
  while (ending.test_and_set()) pause();
  munmap(last_words->reserve, kReserve);
  try {
    const std::optional<absl::Status> error =
        std::current_exception() ? CaughtError(last_words->who) : std::nullopt;
    if (!error) std::abort();
    if (last_words->supervised) {
      SendReport(*error);
    } else {
      ReportError(*error, /*json=*/false);
    }
    _exit(ExitCodeOf(*error));
  } catch (const std::bad_alloc&) {
    EndWithoutWords();
  }
}

}  // namespace

void ReportWhatEndsProcess(const std::string& who, bool supervised) {
  static LastWords words;
  words = {.who = who,
           .supervised = supervised,
           .without_memory = StrCat("error: ", who, who.empty() ? "" : ": ", "out of memory\n"),
           .reserve = mmap(nullptr, kReserve, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)};
  last_words = &words;
  std::set_terminate(End);
}

}  // namespace ftune
