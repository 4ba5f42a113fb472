// Reads and writes of a file that run beside the caller: the kernel's io_uring, or a thread where the kernel
// or the container has none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace ftune {

struct IoOperation {
  uint64_t id = 0;
  bool write = false;
  std::byte* data = nullptr;  // stays until the result is taken
  uint32_t bytes = 0;
  int64_t offset = 0;
};

struct IoResult {
  uint64_t id = 0;
  int64_t result = 0;  // bytes read or written, maybe fewer than asked for, or minus an errno
};

// Used by one thread. All results must be taken before it goes away.
class IoQueue {
 public:
  virtual ~IoQueue() = default;
  IoQueue(const IoQueue&) = delete;
  IoQueue& operator=(const IoQueue&) = delete;

  // At most the queue's depth may be without a result.
  virtual void Submit(const IoOperation& operation) = 0;
  // A result, in no particular order; without `wait` none where none is there. With `wait`, which needs an
  // operation without a result, none only if the queue itself is broken.
  virtual std::optional<IoResult> Take(bool wait) = 0;

 protected:
  IoQueue() = default;
};

// Null where the system has no io_uring, or forbids it; `error` is then an errno. `direct`: the file is read
// past the page cache; where it is not, copying from and to that is left to the kernel's own threads.
std::unique_ptr<IoQueue> MakeUringQueue(int fd, bool direct, unsigned depth, int& error);
std::unique_ptr<IoQueue> MakeThreadQueue(int fd);

}  // namespace ftune
