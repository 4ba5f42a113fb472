#include <liburing.h>

#include <cerrno>

#include "base/io_queue.h"

namespace ftune {
namespace {

class UringQueue final : public IoQueue {
 public:
  UringQueue(int fd, bool direct) : fd_(fd), direct_(direct) {}
  ~UringQueue() override {
    if (open_) io_uring_queue_exit(&ring_);
  }

  // 0 or an errno.
  int Open(unsigned depth) {
    const int error = io_uring_queue_init(depth, &ring_, 0);
    if (error != 0) return -error;
    open_ = true;
    io_uring_probe* probe = io_uring_get_probe_ring(&ring_);
    const bool has_both = probe != nullptr && io_uring_opcode_supported(probe, IORING_OP_READ) &&
                          io_uring_opcode_supported(probe, IORING_OP_WRITE);
    if (probe != nullptr) io_uring_free_probe(probe);
    return has_both ? 0 : ENOSYS;
  }

  void Submit(const IoOperation& operation) override {
    io_uring_sqe* entry = io_uring_get_sqe(&ring_);  // there is one: the caller bounds what is in flight
    if (operation.write) {
      io_uring_prep_write(entry, fd_, operation.data, operation.bytes, operation.offset);
    } else {
      io_uring_prep_read(entry, fd_, operation.data, operation.bytes, operation.offset);
    }
    if (!direct_) io_uring_sqe_set_flags(entry, IOSQE_ASYNC);
    io_uring_sqe_set_data64(entry, operation.id);
    // What the kernel has no room for stays in the ring, and Take submits it again.
    io_uring_submit(&ring_);
  }

  std::optional<IoResult> Take(bool wait) override {
    io_uring_cqe* entry = nullptr;
    while (io_uring_peek_cqe(&ring_, &entry) != 0) {
      if (!wait) {
        if (io_uring_sq_ready(&ring_) > 0) io_uring_submit(&ring_);
        return std::nullopt;
      }
      const int submitted = io_uring_submit_and_wait(&ring_, 1);
      if (submitted < 0 && submitted != -EINTR && submitted != -EAGAIN && submitted != -EBUSY) {
        return std::nullopt;
      }
    }
    const IoResult result = {io_uring_cqe_get_data64(entry), entry->res};
    io_uring_cqe_seen(&ring_, entry);
    return result;
  }

 private:
  int fd_;
  bool direct_;
  bool open_ = false;
  io_uring ring_;
};

}  // namespace

std::unique_ptr<IoQueue> MakeUringQueue(int fd, bool direct, unsigned depth, int& error) {
  auto queue = std::make_unique<UringQueue>(fd, direct);
  error = queue->Open(depth);
  if (error != 0) return nullptr;
  return queue;
}

}  // namespace ftune
