// Ranks that are threads of the test.
#pragma once

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/thread_transport.h"

namespace ftune {

// Calls run(communicator) in a thread for each rank.
template <class Rank>
void RunRanks(int ranks, const Rank& run) {
  std::vector<std::unique_ptr<Transport>> transports = MakeThreadTransports(ranks);
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r] {
      Communicator comm(std::move(transports[r]));
      run(comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ftune
