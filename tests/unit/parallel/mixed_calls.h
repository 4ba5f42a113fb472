// Sends and receives among collectives: orders that cannot end, and that all transports refuse at once, and
// orders that they must not refuse.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "base/random.h"
#include "base/strings.h"
#include "parallel/comm/communicator.h"

namespace ftune {

// What each of three ranks calls, and what the error of all says.
struct WrongOrder {
  std::function<absl::Status(Communicator&, const Buffer&)> run;  // 10 elements
  std::vector<std::string> says;
  bool of_three = false;  // no two ranks wait for each other
};

inline std::vector<WrongOrder> WrongOrders() {
  const auto all_reduce = [](Communicator& c, const Buffer& b) { return c.Run(Call::AllReduce(b)); };
  return {
      {[=](Communicator& c, const Buffer& b) {
         return c.rank() == 0 ? c.Run(Call::Send(b, 1)) : all_reduce(c, b);
       },
       {"send(to rank 1, f32, 10 elements) #0 on rank 0", "all_reduce(sum, f32, 10 elements) #0 on rank 1"}},
      {[=](Communicator& c, const Buffer& b) {
         return c.rank() == 2 ? c.Run(Call::Receive(b, 1)) : all_reduce(c, b);
       },
       {"receive(from rank 1, f32, 10 elements) #0 on rank 2",
        "all_reduce(sum, f32, 10 elements) #0 on rank"}},
      // A rank is not here at all, for which the others would wait first.
      {[=](Communicator& c, const Buffer& b) {
         if (c.rank() == 0) {
           const absl::Time end = absl::Now() + absl::Seconds(5);
           while (c.status().ok() && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
           return c.status();
         }
         return c.rank() == 2 ? c.Run(Call::Receive(b, 1)) : all_reduce(c, b);
       },
       {"receive(from rank 1", "all_reduce(sum", "on rank 1", "on rank 2"}},
      {[=](Communicator& c, const Buffer& b) {
         return c.rank() == 2 ? all_reduce(c, b) : c.Run(Call::Send(b, 1 - c.rank()));
       },
       {"send(to rank 1, f32, 10 elements) #0 on rank 0", "send(to rank 0, f32, 10 elements) #0 on rank 1"}},
      {[=](Communicator& c, const Buffer& b) {
         return c.rank() == 2 ? all_reduce(c, b) : c.Run(Call::Receive(b, 1 - c.rank()));
       },
       {"receive(from rank 1", "receive(from rank 0", "on rank 0", "on rank 1"}},
      // The second send meets a broadcast.
      {[=](Communicator& c, const Buffer& b) {
         if (c.rank() == 0) {
           const absl::Status first = c.Run(Call::Send(b, 1));
           return first.ok() ? c.Run(Call::Send(b, 1)) : first;
         }
         const absl::Status first = c.rank() == 1 ? c.Run(Call::Receive(b, 0)) : absl::OkStatus();
         return first.ok() ? c.Run(Call::Broadcast(b, 2)) : first;
       },
       {"send(to rank 1, f32, 10 elements) #1 on rank 0",
        "broadcast(from rank 2, f32, 10 elements) #0 on rank 1"}},
      {[=](Communicator& c, const Buffer& b) {
         Buffer less = b;
         less.count -= c.rank();
         if (c.rank() == 2) return all_reduce(c, b);
         return c.Run(c.rank() == 0 ? Call::Send(less, 1) : Call::Receive(less, 0));
       },
       {"send(to rank 1, f32, 10 elements) #0 on rank 0",
        "receive(from rank 0, f32, 9 elements) #0 on rank 1"}},
      {[=](Communicator& c, const Buffer& b) { return c.Run(Call::Send(b, (c.rank() + 1) % 3)); },
       {"send(to rank 1", "send(to rank 2", "send(to rank 0", "on rank 0", "on rank 1", "on rank 2"},
       true},
      {[=](Communicator& c, const Buffer& b) {
         if (c.rank() == 0) return all_reduce(c, b);
         return c.Run(c.rank() == 1 ? Call::Receive(b, 2) : Call::Send(b, 0));
       },
       {"all_reduce(sum", "send(to rank 0", "on rank 0", "on rank 2"}},
  };
}

// What is wrong of what a rank got of it; or nothing.
inline std::string CheckWrongOrder(Communicator& comm, const WrongOrder& order) {
  std::vector<float> x(10);
  const absl::Time begin = absl::Now();
  const absl::Status status =
      order.run(comm, {reinterpret_cast<std::byte*>(x.data()), std::ssize(x), DType::kF32, {}});
  std::string wrong = status.ok() ? "no error" : "";
  const std::string message(status.message());
  for (const std::string& part : order.says) {
    if (message.find(part) == std::string::npos) StrAppend(wrong, "no '", part, "' in: ", message, "\n");
  }
  // The time-out is 20 s.
  if (absl::Now() - begin > absl::Seconds(4)) StrAppend(wrong, "only after a long time: ", message);
  return wrong;
}

// Calls of all kinds between all ranks, in one order, which each rank comes to at times of its own. What went
// wrong, or nothing.
inline std::string RunMixedCalls(Communicator& comm, uint64_t seed, int calls) {
  RandomSequence order(seed, 1), delays(seed, 2 + static_cast<uint64_t>(comm.rank()));
  const int n = comm.size(), me = comm.rank();
  for (int i = 0; i < calls; ++i) {
    // The same draws on all ranks.
    const int what = static_cast<int>(order.Below(8));
    const int a = static_cast<int>(order.Below(n));
    const int b = (a + 1 + static_cast<int>(order.Below(n - 1))) % n;
    const auto count =
        static_cast<int64_t>(order.Below(10) == 0 ? 50'000 + order.Below(100'000) : order.Below(3000));
    if (delays.Below(10) == 0) absl::SleepFor(absl::Microseconds(delays.Below(2000)));
    std::vector<float> x(static_cast<size_t>(count), static_cast<float>(me + 1));
    const Buffer buffer = {reinterpret_cast<std::byte*>(x.data()), count, DType::kF32, {}};
    float expected = static_cast<float>(me + 1);
    absl::Status status;
    const auto run = [&](Call call) {
      status = delays.Below(2) == 0 ? comm.Run(std::move(call)) : comm.Start(std::move(call)).Wait();
    };
    if (what < 5) {
      if (me == a) run(Call::Send(buffer, b));
      if (me == b) run(Call::Receive(buffer, a));
      if (me == b) expected = static_cast<float>(a + 1);
    } else if (what == 5) {
      run(Call::Broadcast(buffer, a));
      expected = static_cast<float>(a + 1);
    } else if (what == 6) {
      run(Call::AllReduce(buffer));
      expected = static_cast<float>(n * (n + 1) / 2);
    } else {
      run(Call::Barrier());
    }
    if (!status.ok()) return StrCat("call ", i, " of seed ", seed, ": ", std::string(status.message()));
    for (const float value : x) {
      if (value != expected) return StrCat("call ", i, " of seed ", seed, ": ", value, " for ", expected);
    }
  }
  return "";
}

}  // namespace ftune
