// A scratch file that is read and written beside the computation. Every result is checked: what came short
// is continued, an error says where in the file it happened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/io_queue.h"
#include "base/scratch_file.h"
#include "base/ticket_file.h"

namespace ftune {

// Used by one thread.
class AsyncFile final : public TicketFile {
 public:
  struct Options {
    std::filesystem::path folder;
    int64_t bytes = 0;
    std::string content;    // "the optimizer's states": for errors
    bool use_uring = true;  // where there is one
  };
  static absl::StatusOr<std::unique_ptr<AsyncFile>> Create(const Options& options);
  AsyncFile(const AsyncFile&) = delete;
  AsyncFile& operator=(const AsyncFile&) = delete;
  ~AsyncFile() override;  // waits for what is on its way

  // Address, size and offset are multiples of ScratchFile::kAlignment, or Wait says so.
  Ticket Read(std::span<std::byte> to, int64_t offset) override;
  Ticket Write(std::span<const std::byte> from, int64_t offset) override;
  bool Done(Ticket ticket) override;
  absl::Status Wait(Ticket ticket) override;
  std::string method() const override;

 private:
  struct Request {
    bool write = false;
    int64_t unfinished = 0;  // pieces
    absl::Status status;     // the first error
  };
  // What is given to the queue at once.
  struct Piece {
    Ticket ticket = 0;
    std::byte* data = nullptr;
    int64_t bytes = 0;
    int64_t offset = 0;
  };

  AsyncFile(const Options& options, ScratchFile file);
  Ticket Start(bool write, std::byte* data, int64_t bytes, int64_t offset);
  // Gives the queue what it has room for.
  void Submit();
  void Finish(const IoResult& result);
  // Takes results; the first of them may be waited for.
  void TakeResults(bool wait);
  void Fail(Request& request, const Piece& piece, int error) const;
  void FailAll();

  std::filesystem::path folder_;
  std::string content_;
  ScratchFile file_;
  std::unique_ptr<IoQueue> queue_;
  bool uses_uring_ = false;
  int uring_error_ = 0;  // why not, where it was asked for
  std::map<Ticket, Request> requests_;
  Ticket next_ticket_ = 1;
  std::deque<Piece> waiting_;
  std::vector<Piece> in_flight_;  // by the operation's id
  std::vector<size_t> free_ids_;
};

}  // namespace ftune
