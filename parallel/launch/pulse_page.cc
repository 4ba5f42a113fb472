#include "parallel/launch/pulse_page.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "base/timeline.h"

namespace ftune {
namespace {

static_assert(std::is_trivially_copyable_v<PulseRecord> && sizeof(PulseRecord) % sizeof(uint64_t) == 0);

constexpr size_t kWords = sizeof(PulseRecord) / sizeof(uint64_t);
// A reader has the newest of them, and the writer does not come back to it before it has written two more.
constexpr uint64_t kSlots = 4;

using Words = std::array<uint64_t, kWords>;
static_assert(std::atomic<uint64_t>::is_always_lock_free);

absl::Status NoPage(const char* action) {
  return UserError(
      ExitCode::kRankFailed,
      {.key = "launch",
       .message = StrCat("there is no memory to show a rank's state: ", action, ": ", strerror(errno)),
       .hint = "raise the limits of this user"});
}

// 0 where there is no such process any more.
int64_t ResidentBytes(pid_t pid) {
  char text[128] = {};
  const std::string path = StrCat("/proc/", pid, "/statm");
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return 0;
  const size_t count = std::fread(text, 1, sizeof(text) - 1, file);
  std::fclose(file);
  long long all = 0, resident = 0;
  if (count == 0 || std::sscanf(text, "%lld %lld", &all, &resident) != 2) return 0;
  return resident * sysconf(_SC_PAGESIZE);
}

}  // namespace

// All zero is a page on which nothing was written.
struct PulsePage::Layout {
  std::atomic<uint64_t> written;  // records so far; the last is in slot `written` mod kSlots
  std::array<std::array<std::atomic<uint64_t>, kWords>, kSlots> slots;
};

absl::StatusOr<PulsePage> PulsePage::MapFile(int descriptor) {
  void* const memory =
      mmap(nullptr, sizeof(Layout), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, /*offset=*/0);
  if (memory == MAP_FAILED) return NoPage("mmap");
  PulsePage page;
  page.layout_ = std::shared_ptr<Layout>(static_cast<Layout*>(memory),
                                         [](Layout* layout) { munmap(layout, sizeof(Layout)); });
  return page;
}

absl::StatusOr<PulsePage> PulsePage::Create() {
  Descriptor file(memfd_create("pulse", MFD_CLOEXEC));
  if (!file) return NoPage("memfd_create");
  if (ftruncate(file.get(), sizeof(Layout)) != 0) return NoPage("ftruncate");
  FTUNE_ASSIGN_OR_RETURN(PulsePage page, MapFile(file.get()));
  page.file_ = std::move(file);
  return page;
}

absl::StatusOr<PulsePage> PulsePage::Map(int descriptor) {
  struct stat file;
  if (fstat(descriptor, &file) != 0) return NoPage("fstat");
  if (file.st_size != sizeof(Layout)) {
    errno = EINVAL;
    return NoPage("it has another size");
  }
  return MapFile(descriptor);
}

void PulsePage::Write(const PulseRecord& record) {
  if (!layout_) return;
  Words words;
  std::memcpy(words.data(), &record, sizeof(record));
  const uint64_t number = layout_->written.load(std::memory_order_relaxed) + 1;
  // What was counted before is seen before anything of its slot is written over.
  std::atomic_thread_fence(std::memory_order_release);
  auto& slot = layout_->slots[number % kSlots];
  for (size_t i = 0; i < kWords; ++i) slot[i].store(words[i], std::memory_order_relaxed);
  layout_->written.store(number, std::memory_order_release);
}

Pulse PulsePage::Look(pid_t writer) const {
  if (!layout_) return {};
  Words words;
  while (true) {
    const uint64_t number = layout_->written.load(std::memory_order_acquire);
    if (number == 0) return {.resident_bytes = ResidentBytes(writer)};
    const auto& slot = layout_->slots[number % kSlots];
    for (size_t i = 0; i < kWords; ++i) words[i] = slot[i].load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    // A writer that has counted kSlots - 1 more may be writing over it.
    if (layout_->written.load(std::memory_order_relaxed) - number < kSlots - 1) break;
  }
  PulseRecord record;
  std::memcpy(static_cast<void*>(&record), words.data(), sizeof(record));
  const bool waits = record.group.count > 0;
  return {.step = record.step,
          .total_steps = record.total_steps,
          .phase = record.phase.data(),
          .micro_batch = record.micro_batch,
          .call = waits ? StrCat(record.call.Describe(), " of ", record.group.Describe()) : "",
          .calls = record.calls,
          .still_seconds = std::max(0.0, Timeline::Now() - record.changed),
          .step_seconds = record.step_seconds,
          .compute_seconds = record.compute_seconds,
          .wait_seconds = record.wait_seconds,
          .data_wait_seconds = record.data_wait_seconds,
          .resident_bytes = ResidentBytes(writer),
          .network_bytes = record.network_bytes,
          .group = record.group,
          .sequence = waits ? record.call.sequence : 0};
}

}  // namespace ftune
