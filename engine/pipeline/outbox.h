// Tensors on their way to other ranks: they live until they have left.
#pragma once

#include <deque>
#include <utility>

#include "engine/tensor/tensor.h"
#include "parallel/comm/communicator.h"

namespace ftune {

class Outbox {
 public:
  Outbox() = default;
  ~Outbox() { Wait(); }
  Outbox(const Outbox&) = delete;
  Outbox& operator=(const Outbox&) = delete;

  void Put(Tensor tensor, Pending pending) { sent_.push_back({std::move(tensor), std::move(pending)}); }
  // Lets go of those that have left.
  void Release() {
    while (!sent_.empty() && sent_.front().pending.done()) Pop();
  }
  void Wait() {
    while (!sent_.empty()) Pop();
  }

 private:
  struct Sent {
    Tensor tensor;
    Pending pending;
  };
  void Pop() {
    sent_.front().pending.Wait().IgnoreError();  // it stays in the link
    sent_.pop_front();
  }
  std::deque<Sent> sent_;
};

}  // namespace ftune
