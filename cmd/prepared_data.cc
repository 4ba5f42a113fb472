#include "cmd/prepared_data.h"

#include <chrono>

#include "absl/strings/str_format.h"
#include "base/cache_folder.h"
#include "base/environment.h"
#include "base/strings.h"

namespace ftune {
namespace {

using Clock = std::chrono::steady_clock;

double SecondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace

std::filesystem::path PreparedFolder(const std::optional<std::string>& choice) {
  if (choice) return *choice;
  const std::filesystem::path cache = CacheFolder(ProcessEnvironment());
  return cache.empty() ? cache : cache / "tokens";
}

PrepareObserver ShowPreparation(Progress& progress) {
  const Clock::time_point start = Clock::now();
  return {.say = [&progress](const std::string& message) { progress.Say(message); },
          .progress =
              [&progress, start](const PrepareProgress& now) {
                progress.Passing(DescribeProgress(now, SecondsSince(start)));
              }};
}

std::string DescribeStore(const PreparedStore& store) {
  std::string text = StrCat("prepared data: ", store.path.string(), ", ", HumanBytes(store.bytes));
  if (store.reused_shards == store.shards) return text + ", re-used";
  if (store.reused_shards > 0) {
    StrAppend(text, ", ", store.reused_shards, " of ", store.shards, " shards re-used");
  }
  return text;
}

std::string DescribeProgress(const PrepareProgress& progress, double seconds) {
  const double rows = static_cast<double>(progress.rows) / seconds;
  const double bytes = static_cast<double>(progress.bytes) / seconds;
  std::string text = absl::StrFormat("preparing: %d rows, %s of text, %.0f rows/s, %.1f MB/s", progress.rows,
                                     HumanBytes(progress.bytes), rows, bytes / 1e6);
  if (progress.total_bytes && *progress.total_bytes > 0) {
    const int64_t left = *progress.total_bytes - progress.bytes;
    StrAppend(text,
              absl::StrFormat(", %.0f %%", 100.0 * static_cast<double>(progress.bytes) /
                                               static_cast<double>(*progress.total_bytes)),
              ", ", HumanDuration(static_cast<double>(left) / bytes), " left");
  }
  return text;
}

}  // namespace ftune
