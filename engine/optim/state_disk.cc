#include "engine/optim/state_disk.h"

#include <algorithm>
#include <utility>

#include "base/async_file.h"
#include "base/error.h"
#include "base/scratch_file.h"
#include "engine/optim/told_file.h"

namespace ftune {
namespace {

constexpr size_t kSlots = 3;

int64_t WholePages(int64_t bytes) {
  return (bytes + ScratchFile::kAlignment - 1) / ScratchFile::kAlignment * ScratchFile::kAlignment;
}

}  // namespace

absl::StatusOr<std::unique_ptr<StateDisk>> StateDisk::Create(Backend& backend, const Options& options,
                                                             const std::vector<int64_t>& piece_bytes) {
  std::unique_ptr<StateDisk> disk(new StateDisk(backend));
  int64_t largest = 0;
  for (const int64_t bytes : piece_bytes) {
    const int64_t stored = WholePages(bytes);
    disk->pieces_.push_back({bytes, stored, disk->file_bytes_});
    disk->file_bytes_ += stored;
    largest = std::max(largest, stored);
  }
  for (size_t i = 0; i < std::min(kSlots, piece_bytes.size()); ++i) {
    disk->slots_.push_back({backend.Allocate(DType::kU8, 1, largest, Category::kOptimizer)});
  }
  if (backend.computes()) {
    FTUNE_ASSIGN_OR_RETURN(disk->file_,
                           AsyncFile::Create({.folder = options.folder,
                                              .bytes = disk->file_bytes_,
                                              .content = "the optimizer's states (memory.offload)",
                                              .use_uring = options.use_uring}));
  } else if (DiskListener* listener = backend.disk_listener()) {
    disk->file_ = std::make_unique<ToldFile>(*listener);
  }
  return disk;
}

std::span<std::byte> StateDisk::Stored(const Slot& slot, const Place& place) const {
  return {slot.memory.bytes(), static_cast<size_t>(place.stored)};
}

absl::Status StateDisk::Settle(Slot& slot) {
  if (slot.ticket == 0) return absl::OkStatus();
  return file_->Wait(std::exchange(slot.ticket, 0));
}

absl::Status StateDisk::Fill(size_t piece, const std::function<void(const Tensor&)>& fill) {
  Slot& slot = slots_[piece % slots_.size()];
  FTUNE_RETURN_IF_ERROR(Settle(slot));
  const Place& place = pieces_[piece];
  fill(slot.memory.Cols(0, place.bytes));
  if (file_) slot.ticket = file_->Write(Stored(slot, place), place.offset);
  return absl::OkStatus();
}

absl::Status StateDisk::Prefetch() {
  if (!file_) return absl::OkStatus();
  const int64_t end = next_visit_ + static_cast<int64_t>(slots_.size());
  for (; next_read_ < end; ++next_read_) {
    Slot& slot = SlotOf(next_read_);
    if (slot.ticket != 0 && !file_->Done(slot.ticket)) return absl::OkStatus();
    FTUNE_RETURN_IF_ERROR(Settle(slot));
    slot.ticket = file_->Read(Stored(slot, PlaceOf(next_read_)), PlaceOf(next_read_).offset);
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> StateDisk::Acquire() {
  Slot& slot = SlotOf(next_visit_);
  if (file_) {
    if (next_read_ == next_visit_) FTUNE_RETURN_IF_ERROR(Settle(slot));
    FTUNE_RETURN_IF_ERROR(Prefetch());
    FTUNE_RETURN_IF_ERROR(Settle(slot));
  }
  return slot.memory.Cols(0, PlaceOf(next_visit_).bytes);
}

absl::Status StateDisk::Release() {
  Slot& slot = SlotOf(next_visit_);
  const Place& place = PlaceOf(next_visit_);
  ++next_visit_;
  if (file_) slot.ticket = file_->Write(Stored(slot, place), place.offset);
  return Prefetch();
}

absl::Status StateDisk::Read(size_t piece, const Tensor& to) {
  if (!file_) return absl::OkStatus();
  // Whatever is on its way arrives first, reads too: they are of the same bytes and stay where they are.
  for (Slot& slot : slots_) FTUNE_RETURN_IF_ERROR(Settle(slot));
  const Place& place = pieces_[piece];
  return file_->Wait(file_->Read({to.bytes(), static_cast<size_t>(place.stored)}, place.offset));
}

}  // namespace ftune
