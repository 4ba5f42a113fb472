// Ranks as threads that are joined by gloo over loopback.
#pragma once

#include <doctest/doctest.h>

#include <barrier>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "parallel/comm/gloo_transport.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/parallel/folder_store.h"

namespace ftune {

inline GlooOptions LoopbackOptions(const std::filesystem::path& folder, int rank, int ranks) {
  return {.rank = rank,
          .size = ranks,
          .store = std::make_shared<FolderStore>(folder),
          .prefix = "world",
          .address = "127.0.0.1",
          .timeout = absl::Seconds(20)};
}

// A transport's calls end after 20 seconds at the latest: a test must not hang.
inline void RunGlooTransports(int ranks, const std::function<void(std::unique_ptr<Transport>)>& run) {
  const TempFolder folder;
  std::barrier joined(ranks);  // who still joins hears of others' errors there
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      absl::StatusOr<std::unique_ptr<Transport>> transport =
          JoinGloo(LoopbackOptions(folder.path(), r, ranks));
      REQUIRE_MESSAGE(transport.ok(), transport.status().ToString());
      (*transport)->set_timeout(absl::Seconds(20));
      joined.arrive_and_wait();
      run(*std::move(transport));
    });
  }
  for (std::thread& t : threads) t.join();
}

}  // namespace ftune
