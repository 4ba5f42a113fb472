#include "parallel/comm/shm_channels.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "parallel/comm/copy_bytes.h"

namespace ftune {
namespace {

int64_t ChunksOf(int64_t bytes) { return (bytes + kShmStageBytes - 1) / kShmStageBytes; }

}  // namespace

// Both say what they are about to do and where their buffer is. Then whoever can reach the other's buffer
// copies; if neither can, the sender's stage is between them.
absl::Status ShmChannels::Send(const Call& call) {
  Progress& at = out_[call.peer];
  ShmChannel& mine = group_.own().channel(call.peer);
  ShmChannel& theirs = group_.control(call.peer).channel(group_.rank());
  const size_t turn = at.calls++ % 2;
  const int64_t bytes = call.in.bytes();
  const ShmPlace place = group_.PlaceOf(call.in.data, bytes);
  mine.send[turn] = {.signature = call.signature(), .place = place};
  mine.sent.Post();
  FTUNE_RETURN_IF_ERROR(group_.Await(theirs.taken, ++at.theirs, call.peer, call));
  const ShmChannel::Mail& mail = theirs.receive[turn];
  FTUNE_RETURN_IF_ERROR(group_.Compare(call, call.peer, mail.signature));
  if (bytes == 0) return group_.host()->status();
  if (place.kind == ShmPlace::kMemory) {
    FTUNE_RETURN_IF_ERROR(group_.Await(theirs.taken, ++at.theirs, call.peer, call));
  } else if (mail.place.kind == ShmPlace::kMemory) {
    FTUNE_ASSIGN_OR_RETURN(const std::shared_ptr<ShmMemory> memory,
                           group_.Find(call.peer, mail.place.memory, call));
    CopyBytes(call.in.data, bytes, memory->data() + mail.place.offset);
    mine.sent.Post();
  } else {
    const int64_t chunks = ChunksOf(bytes);
    for (int64_t c = 0; c < chunks; ++c) {
      if (c >= 2) FTUNE_RETURN_IF_ERROR(group_.Await(theirs.taken, ++at.theirs, call.peer, call));
      const int64_t begin = c * kShmStageBytes;
      CopyBytes(call.in.data + begin, std::min(kShmStageBytes, bytes - begin),
                group_.stage(group_.rank(), c));
      mine.sent.Post();
    }
    at.theirs += static_cast<uint32_t>(std::min<int64_t>(chunks, 2));
    FTUNE_RETURN_IF_ERROR(group_.Await(theirs.taken, at.theirs, call.peer, call));
  }
  return group_.host()->status();
}

absl::Status ShmChannels::Receive(const Call& call) {
  Progress& at = in_[call.peer];
  ShmChannel& mine = group_.own().channel(call.peer);
  ShmChannel& theirs = group_.control(call.peer).channel(group_.rank());
  const size_t turn = at.calls++ % 2;
  const int64_t bytes = call.out.bytes();
  const ShmPlace place = group_.PlaceOf(call.out.data, bytes);
  mine.receive[turn] = {.signature = call.signature(), .place = place};
  mine.taken.Post();
  FTUNE_RETURN_IF_ERROR(group_.Await(theirs.sent, ++at.theirs, call.peer, call));
  const ShmChannel::Mail& mail = theirs.send[turn];
  FTUNE_RETURN_IF_ERROR(group_.Compare(call, call.peer, mail.signature));
  if (bytes == 0) return group_.host()->status();
  if (mail.place.kind == ShmPlace::kMemory) {
    FTUNE_ASSIGN_OR_RETURN(const std::shared_ptr<ShmMemory> memory,
                           group_.Find(call.peer, mail.place.memory, call));
    CopyBytes(memory->data() + mail.place.offset, bytes, call.out.data);
    mine.taken.Post();
  } else if (place.kind == ShmPlace::kMemory) {
    FTUNE_RETURN_IF_ERROR(group_.Await(theirs.sent, ++at.theirs, call.peer, call));
  } else {
    for (int64_t c = 0; c < ChunksOf(bytes); ++c) {
      const int64_t begin = c * kShmStageBytes;
      FTUNE_RETURN_IF_ERROR(group_.Await(theirs.sent, ++at.theirs, call.peer, call));
      CopyBytes(group_.stage(call.peer, c), std::min(kShmStageBytes, bytes - begin), call.out.data + begin);
      mine.taken.Post();
    }
  }
  return group_.host()->status();
}

}  // namespace ftune
