#include "parallel/comm/shm_channels.h"

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "parallel/comm/copy_bytes.h"

namespace ftune {
namespace {

int64_t PiecesOf(int64_t bytes) { return (bytes + kShmSendBytes - 1) / kShmSendBytes; }
int64_t PieceBytes(int64_t bytes, int64_t piece) {
  return std::min(kShmSendBytes, bytes - piece * kShmSendBytes);
}

// Whether the receiver can take the bytes as soon as it hears of them, and only says when it has.
bool Ready(ShmPlace::Kind sent, int64_t bytes) { return bytes == 0 || sent != ShmPlace::kStage; }

}  // namespace

// Both say what they are about to do and where their buffer is. Where the sender's is in shared memory, or it
// is small and lies in the sender's stage already, the receiver copies. Else the sender copies, to the
// receiver's buffer if that is in shared memory, or else through its stage.
absl::Status ShmChannels::Send(const Call& call) {
  Progress& at = out_[call.peer];
  ShmChannel& mine = group_.own().channel(call.peer);
  const int64_t bytes = call.in.bytes();
  const size_t turn = at.calls++ % 2;
  ShmPlace place = group_.PlaceOf(call.in.data, bytes);
  if (place.kind == ShmPlace::kStage && bytes <= kShmInlineBytes) {
    CopyBytes(call.in.data, bytes, Piece(group_.rank(), 0));
    place.kind = ShmPlace::kInline;
  }
  mine.send[turn] = {.signature = call.signature(), .place = place};
  mine.sent.Post();
  const auto taken = [&](uint32_t steps) {
    at.theirs += steps;
    return group_.AwaitChannel(call.peer, ShmWait::kTaken, at.theirs, call);
  };
  if (Ready(place.kind, bytes)) {
    FTUNE_RETURN_IF_ERROR(taken(2));  // it is there, and has the bytes; or it has found that the calls differ
    return group_.host()->status();
  }
  FTUNE_RETURN_IF_ERROR(taken(1));
  const ShmChannel::Mail& mail = group_.control(call.peer).channel(group_.rank()).receive[turn];
  FTUNE_RETURN_IF_ERROR(group_.Compare(call, call.peer, mail.signature));
  if (mail.place.kind == ShmPlace::kMemory) {
    FTUNE_ASSIGN_OR_RETURN(const std::shared_ptr<ShmMemory> memory,
                           group_.Find(call.peer, mail.place.memory, call));
    CopyBytes(call.in.data, bytes, memory->data() + mail.place.offset);
    mine.sent.Post();
    return group_.host()->status();
  }
  const int64_t pieces = PiecesOf(bytes);
  for (int64_t p = 0; p < pieces; ++p) {
    if (p >= kShmSendPieces) FTUNE_RETURN_IF_ERROR(taken(1));
    CopyBytes(call.in.data + p * kShmSendBytes, PieceBytes(bytes, p), Piece(group_.rank(), p));
    mine.sent.Post();
  }
  FTUNE_RETURN_IF_ERROR(taken(static_cast<uint32_t>(std::min(pieces, kShmSendPieces))));
  return group_.host()->status();
}

absl::Status ShmChannels::Receive(const Call& call) {
  Progress& at = in_[call.peer];
  ShmChannel& mine = group_.own().channel(call.peer);
  ShmChannel& theirs = group_.control(call.peer).channel(group_.rank());
  const int64_t bytes = call.out.bytes();
  const size_t turn = at.calls++ % 2;
  const ShmChannel::Mail& mail = theirs.send[turn];
  const ShmPlace place = group_.PlaceOf(call.out.data, bytes);
  mine.receive[turn] = {.signature = call.signature(), .place = place};
  const auto sent = [&] { return group_.AwaitChannel(call.peer, ShmWait::kSent, ++at.theirs, call); };
  // Who waits only for the end is not woken before.
  const bool ready = theirs.sent.Reached(at.theirs + 1) && Ready(mail.place.kind, bytes);
  if (!ready) mine.taken.Post();
  FTUNE_RETURN_IF_ERROR(sent());
  FTUNE_RETURN_IF_ERROR(group_.Compare(call, call.peer, mail.signature));
  if (Ready(mail.place.kind, bytes)) {
    if (mail.place.kind == ShmPlace::kMemory && bytes > 0) {
      FTUNE_ASSIGN_OR_RETURN(const std::shared_ptr<ShmMemory> memory,
                             group_.Find(call.peer, mail.place.memory, call));
      CopyBytes(memory->data() + mail.place.offset, bytes, call.out.data);
    } else {
      CopyBytes(Piece(call.peer, 0), bytes, call.out.data);
    }
    mine.taken.Post(ready ? 2 : 1);
  } else if (place.kind == ShmPlace::kMemory) {
    FTUNE_RETURN_IF_ERROR(sent());
  } else {
    for (int64_t p = 0; p < PiecesOf(bytes); ++p) {
      FTUNE_RETURN_IF_ERROR(sent());
      CopyBytes(Piece(call.peer, p), PieceBytes(bytes, p), call.out.data + p * kShmSendBytes);
      mine.taken.Post();
    }
  }
  return group_.host()->status();
}

std::byte* ShmChannels::Piece(int rank, int64_t piece) const {
  return group_.stage(rank, 0) + piece % kShmSendPieces * kShmSendBytes;
}

}  // namespace ftune
