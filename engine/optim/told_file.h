// A file that there is not: a listener is told of the requests, and says when they would be done.
#pragma once

#include "base/ticket_file.h"
#include "engine/backend/op_work.h"

namespace ftune {

class ToldFile final : public TicketFile {
 public:
  explicit ToldFile(DiskListener& listener) : listener_(listener) {}

  Ticket Read(std::span<std::byte> to, int64_t) override {
    return listener_.OnDiskBegin(static_cast<int64_t>(to.size()));
  }
  Ticket Write(std::span<const std::byte> from, int64_t) override {
    return listener_.OnDiskBegin(static_cast<int64_t>(from.size()));
  }
  bool Done(Ticket ticket) override { return listener_.IsDiskDone(ticket); }
  absl::Status Wait(Ticket ticket) override {
    listener_.OnDiskWait(ticket);
    return absl::OkStatus();
  }
  std::string method() const override { return "told of"; }

 private:
  DiskListener& listener_;
};

}  // namespace ftune
