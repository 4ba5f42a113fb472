// A file that is read and written beside other work: each request has a ticket, which is waited for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"

namespace ftune {

class TicketFile {
 public:
  // Above 0. Names a request until Wait has given its result.
  using Ticket = uint64_t;

  virtual ~TicketFile() = default;
  // The bytes must stay until Wait. Requests of overlapping ranges have no order.
  virtual Ticket Read(std::span<std::byte> to, int64_t offset) = 0;
  virtual Ticket Write(std::span<const std::byte> from, int64_t offset) = 0;
  // Whether Wait would return at once.
  virtual bool Done(Ticket ticket) = 0;
  virtual absl::Status Wait(Ticket ticket) = 0;

  // How it is done, for the log: "direct, by io_uring".
  virtual std::string method() const = 0;
};

}  // namespace ftune
