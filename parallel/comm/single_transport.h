// The group of one rank: nothing moves but from `in` to `out`.
#pragma once

#include <mutex>

#include "parallel/comm/transport.h"

namespace ftune {

class SingleTransport final : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  bool returns_at_once() const override { return true; }
  absl::Status Run(const Call& call) override;
  absl::StatusOr<SharedBytes> Allocate(int64_t bytes) override;
  absl::StatusOr<std::unique_ptr<Transport>> Split(const std::vector<int>& members) override;
  void set_timeout(absl::Duration) override {}
  void Abort(const absl::Status& status) override;
  absl::Status status() const override;

 private:
  mutable std::mutex mutex_;
  absl::Status status_;
};

// Page-aligned, zero, of this process alone.
absl::StatusOr<SharedBytes> AllocatePages(int64_t bytes);

}  // namespace ftune
