// Pieces of bytes on disk that are visited one after the other, again and again. Three of them are in
// memory: one is worked on while the next is read and the one before is written.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/ticket_file.h"
#include "engine/backend/backend.h"

namespace ftune {

// On a backend that does not compute there are the buffers and no file; its listener, where there is one, is
// told what would be read and written.
class StateDisk {
 public:
  struct Options {
    std::filesystem::path folder;  // must be there
    bool use_uring = true;
  };
  // Pieces of these sizes, zero at first. `backend`, whose memory the host can reach, outlives it.
  static absl::StatusOr<std::unique_ptr<StateDisk>> Create(Backend& backend, const Options& options,
                                                           const std::vector<int64_t>& piece_bytes);

  // Gives a piece its first values: `fill` writes them into the [1, bytes] u8 that it is given. Before the
  // first Acquire or Prefetch.
  absl::Status Fill(size_t piece, const std::function<void(const Tensor&)>& fill);

  // The next piece, [1, bytes] u8: the first, the second, …, after the last the first again. It is the
  // caller's until Release, which begins to write it back.
  absl::StatusOr<Tensor> Acquire();
  absl::Status Release();
  // Begins to read the next pieces where there is room for them; never waits.
  absl::Status Prefetch();

  // A piece as it is between two visits, into [1, bytes] u8 that is page-aligned and whole pages large.
  absl::Status Read(size_t piece, const Tensor& to);
  int64_t ReadBytes(size_t piece) const { return pieces_[piece].stored; }

  int64_t file_bytes() const { return file_bytes_; }
  std::string method() const { return file_ ? file_->method() : ""; }

 private:
  struct Place {
    int64_t bytes = 0;   // as asked for
    int64_t stored = 0;  // in whole pages
    int64_t offset = 0;
  };
  struct Slot {
    Tensor memory;                  // [1, bytes of the largest piece] u8
    TicketFile::Ticket ticket = 0;  // of a read or write on its way; 0: none
  };

  explicit StateDisk(Backend& backend) : backend_(backend) {}
  const Place& PlaceOf(int64_t visit) const { return pieces_[visit % pieces_.size()]; }
  Slot& SlotOf(int64_t visit) { return slots_[visit % slots_.size()]; }
  std::span<std::byte> Stored(const Slot& slot, const Place& place) const;
  absl::Status Settle(Slot& slot);

  Backend& backend_;
  std::vector<Place> pieces_;
  std::vector<Slot> slots_;
  int64_t file_bytes_ = 0;
  // Visits are numbered from 0; visit v is of piece v % pieces, in slot v % slots. No read overtakes the
  // write of its piece: there are no more slots than pieces, and a slot's write is awaited before its read.
  int64_t next_visit_ = 0;
  int64_t next_read_ = 0;
  std::unique_ptr<TicketFile> file_;  // last: it goes, and waits, before the memory does
};

}  // namespace ftune
