#include "parallel/comm/shm_transport.h"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "parallel/comm/copy_bytes.h"
#include "parallel/comm/mismatch.h"
#include "parallel/comm/reduce.h"
#include "parallel/comm/shm_channels.h"
#include "parallel/comm/shm_group.h"
#include "parallel/comm/shm_host.h"
#include "parallel/comm/shm_layout.h"
#include "parallel/comm/single_transport.h"

namespace ftune {
namespace {

constexpr size_t kMaxName = 80;  // what a socket's address leaves
constexpr int64_t kUnit = 16;    // elements: shares begin on cache lines where the buffer does

int64_t Chunks(int64_t whole, int64_t chunk) { return (whole + chunk - 1) / chunk; }

class ShmTransport final : public Transport {
 public:
  explicit ShmTransport(std::unique_ptr<ShmGroup> group)
      : group_(std::move(group)),
        channels_(*group_),
        kinds_(group_->size()),
        sources_(group_->size()),
        held_(group_->size()) {}

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  void set_timeout(absl::Duration timeout) override { group_->timeout()->set(timeout); }
  void Abort(const absl::Status& status) override { group_->host()->Abort(status); }
  absl::Status status() const override { return group_->host()->status(); }
  absl::StatusOr<SharedBytes> Allocate(int64_t bytes) override { return group_->host()->Allocate(bytes); }

  absl::StatusOr<std::unique_ptr<Transport>> Split(const std::vector<int>& members) override {
    FTUNE_RETURN_IF_ERROR(status());
    if (members.size() == 1) return std::make_unique<SingleTransport>();
    const uint64_t id = group_->NextPart(members);
    std::vector<int> host_ranks;
    for (const int member : members) host_ranks.push_back(group_->members()[member]);
    FTUNE_ASSIGN_OR_RETURN(std::unique_ptr<ShmGroup> part,
                           ShmGroup::Create(group_->host(), id, std::move(host_ranks), group_->timeout()));
    return std::make_unique<ShmTransport>(std::move(part));
  }

  absl::Status Run(const Call& call) override {
    FTUNE_RETURN_IF_ERROR(status());
    if (call.kind == CallKind::kSend) return channels_.Send(call);
    if (call.kind == CallKind::kReceive) return channels_.Receive(call);
    FTUNE_RETURN_IF_ERROR(Meet(call));
    FTUNE_RETURN_IF_ERROR(Move(call));
    // Nobody's buffer may change before all have read it; what went with the call has its own place until the
    // next but one.
    if (Any(ShmPlace::kMemory) || Any(ShmPlace::kStage)) {
      group_->Step();
      FTUNE_RETURN_IF_ERROR(group_->AwaitAll(call));
    }
    std::fill(held_.begin(), held_.end(), nullptr);
    return status();
  }

 private:
  // Waits until all ranks are here with the same call, and learns where their buffers are.
  absl::Status Meet(const Call& call) {
    turn_ = static_cast<size_t>(round_++ % 2);
    Slot(rank()).signature = call.signature();
    Slot(rank()).place = Offer(call);
    group_->Step();
    for (int r = 0; r < size(); ++r) {
      if (r != rank()) {
        FTUNE_RETURN_IF_ERROR(group_->AwaitOfAll(r, call));
        FTUNE_RETURN_IF_ERROR(group_->Compare(call, r, Slot(r).signature));
      }
      FTUNE_RETURN_IF_ERROR(FindSource(r, call));
    }
    return absl::OkStatus();
  }

  ShmSlot& Slot(int r) const { return group_->control(r).slots[turn_]; }
  // What goes with an all-to-all before its elements: the counts.
  int64_t LeadBytes(const Call& call) const {
    return call.kind == CallKind::kAllToAll ? static_cast<int64_t>(sizeof(int64_t)) * size() : 0;
  }

  // Makes what the others read of this rank ready for them.
  ShmPlace Offer(const Call& call) const {
    switch (call.kind) {
      case CallKind::kBarrier:
        return {};
      case CallKind::kBroadcast:
        return rank() == call.peer ? Offer(call, call.in.bytes()) : ShmPlace();
      case CallKind::kAllGather: {
        const int64_t bytes = BytesFor(call.in.dtype, call.counts[rank()]);
        std::byte* const own = call.out.data + BytesFor(call.in.dtype, Offsets(call.counts)[rank()]);
        CopyBytes(call.in.data, bytes, own);
        const ShmPlace place = Offer(call, bytes);
        // `out` may be where others can read, though `in` is not.
        return place.kind == ShmPlace::kStage ? group_->PlaceOf(own, bytes) : place;
      }
      case CallKind::kAllToAll:
        std::memcpy(Slot(rank()).inlined, call.counts.data(), static_cast<size_t>(LeadBytes(call)));
        return Offer(call, BytesFor(call.in.dtype, Offsets(call.counts).back()));
      default:
        return Offer(call, call.in.bytes());
    }
  }

  ShmPlace Offer(const Call& call, int64_t bytes) const {
    const int64_t lead = LeadBytes(call);
    if (bytes > kShmInlineBytes - lead) return group_->PlaceOf(call.in.data, bytes);
    CopyBytes(call.in.data, bytes, Slot(rank()).inlined + lead);
    return {};
  }

  // Where this rank reads what `r` offers; null if that is staged.
  absl::Status FindSource(int r, const Call& call) {
    const ShmPlace place = Slot(r).place;
    kinds_[r] = place.kind;
    sources_[r] = nullptr;
    if (place.kind == ShmPlace::kInline) {
      sources_[r] = Slot(r).inlined + LeadBytes(call);
    } else if (r == rank()) {
      sources_[r] = call.in.data;
    } else if (place.kind == ShmPlace::kMemory) {
      FTUNE_ASSIGN_OR_RETURN(held_[r], group_->Find(r, place.memory, call));
      sources_[r] = held_[r]->data() + place.offset;
    }
    return absl::OkStatus();
  }

  bool Staged(int r) const { return kinds_[r] == ShmPlace::kStage; }
  bool Any(ShmPlace::Kind kind) const {
    return std::find(kinds_.begin(), kinds_.end(), kind) != kinds_.end();
  }

  absl::Status Move(const Call& call) {
    switch (call.kind) {
      case CallKind::kAllReduce:
        return AllReduce(call);
      case CallKind::kReduceScatter:
        return ReduceScatter(call);
      case CallKind::kAllGather:
        return AllGather(call, call.counts, Offsets(call.counts));
      case CallKind::kBroadcast: {
        std::vector<int64_t> counts(size(), 0);
        counts[call.peer] = call.in.count;
        return AllGather(call, counts, std::vector<int64_t>(size() + 1, 0));
      }
      case CallKind::kAllToAll:
        return AllToAll(call);
      default:
        return absl::OkStatus();
    }
  }

  // Each rank reduces a share in its own buffer, which no other reads before; then all take all shares.
  absl::Status AllReduce(const Call& call) {
    const DType dtype = call.in.dtype;
    if (kinds_[0] == ShmPlace::kInline) {  // then all are: they have the same size
      Reduce(dtype, call.op, {sources_.begin(), sources_.end()}, call.in.count, call.out.data);
      return absl::OkStatus();
    }
    const bool staged = Any(ShmPlace::kStage);
    const int64_t chunk = staged ? kShmStageBytes / BytesFor(dtype, 1) : call.in.count;
    for (int64_t begin = 0, c = 0; begin < call.in.count; begin += chunk, ++c) {
      const int64_t n = std::min(chunk, call.in.count - begin);
      const std::vector<int64_t> counts = EvenCounts(n, size(), kUnit);
      const std::vector<int64_t> offsets = Offsets(counts);
      const auto part = [&](int r, int share) {
        std::byte* const base = Staged(r) ? group_->stage(r, c) : sources_[r] + BytesFor(dtype, begin);
        return base + BytesFor(dtype, offsets[share]);
      };
      const auto own = [&](int share) { return call.out.data + BytesFor(dtype, begin + offsets[share]); };
      if (staged) {
        // Nobody reads what was staged two chunks ago: all have been here since.
        if (Staged(rank())) CopyBytes(own(0), BytesFor(dtype, n), part(rank(), 0));
        group_->Step();
        FTUNE_RETURN_IF_ERROR(group_->AwaitAll(call));
      }
      std::vector<const std::byte*> parts;
      for (int r = 0; r < size(); ++r) parts.push_back(part(r, rank()));
      Reduce(dtype, call.op, parts, counts[rank()], part(rank(), rank()));
      group_->Step();
      for (int i = 0; i < size(); ++i) {
        const int r = (rank() + i) % size();
        if (r != rank()) FTUNE_RETURN_IF_ERROR(group_->Await(r, call));
        CopyBytes(part(r, r), BytesFor(dtype, counts[r]), own(r));
      }
    }
    return absl::OkStatus();
  }

  // How many elements a rank stages for each other one at a time.
  int64_t StagedPiece(DType dtype) const { return kShmStageBytes / size() / 64 * 64 / BytesFor(dtype, 1); }
  std::byte* StagedPiece(int from, int to, int64_t chunk) const {
    return group_->stage(from, chunk) + kShmStageBytes / size() / 64 * 64 * to;
  }
  // Lays chunk `chunk` of what this rank has for each other one where they read it.
  void StagePieces(const Call& call, const std::vector<int64_t>& offsets, int64_t chunk) {
    const DType dtype = call.in.dtype;
    const int64_t piece = StagedPiece(dtype);
    for (int r = 0; r < size(); ++r) {
      const int64_t n = std::min(piece, call.counts[r] - chunk * piece);
      if (r == rank() || n <= 0) continue;
      CopyBytes(call.in.data + BytesFor(dtype, offsets[r] + chunk * piece), BytesFor(dtype, n),
                StagedPiece(rank(), r, chunk));
    }
  }

  absl::Status ReduceScatter(const Call& call) {
    const DType dtype = call.in.dtype;
    const std::vector<int64_t> offsets = Offsets(call.counts);
    const int64_t largest = *std::max_element(call.counts.begin(), call.counts.end());
    const bool staged = Any(ShmPlace::kStage);
    const int64_t piece = staged ? StagedPiece(dtype) : std::max<int64_t>(largest, 1);
    for (int64_t c = 0; c < Chunks(largest, piece); ++c) {
      if (staged) {
        // Nobody reads what was staged two chunks ago: all have been here since.
        if (Staged(rank())) StagePieces(call, offsets, c);
        group_->Step();
        FTUNE_RETURN_IF_ERROR(group_->AwaitAll(call));
      }
      const int64_t n = std::min(piece, call.counts[rank()] - c * piece);
      if (n <= 0) continue;
      std::vector<const std::byte*> parts;
      for (int r = 0; r < size(); ++r) {
        const bool elsewhere = Staged(r) && r != rank();
        parts.push_back(elsewhere ? StagedPiece(r, rank(), c)
                                  : sources_[r] + BytesFor(dtype, offsets[rank()] + c * piece));
      }
      Reduce(dtype, call.op, parts, n, call.out.data + BytesFor(dtype, c * piece));
    }
    return absl::OkStatus();
  }

  // `counts` elements of each rank to `offsets` in `out`.
  absl::Status AllGather(const Call& call, const std::vector<int64_t>& counts,
                         const std::vector<int64_t>& offsets) {
    const DType dtype = call.in.dtype;
    const auto place = [&](int r) { return call.out.data + BytesFor(dtype, offsets[r]); };
    int64_t chunks = 0;
    for (int r = 0; r < size(); ++r) {
      if (Staged(r)) chunks = std::max(chunks, Chunks(BytesFor(dtype, counts[r]), kShmStageBytes));
    }
    const auto bytes_in = [&](int r, int64_t c) {
      return Staged(r) ? std::min(kShmStageBytes, BytesFor(dtype, counts[r]) - c * kShmStageBytes) : 0;
    };
    for (int64_t c = 0; c < chunks; ++c) {
      // All have read what was staged two chunks ago once they stand where this rank does.
      if (c >= 2 && bytes_in(rank(), c) > 0) FTUNE_RETURN_IF_ERROR(group_->AwaitAll(call));
      CopyBytes(place(rank()) + c * kShmStageBytes, bytes_in(rank(), c), group_->stage(rank(), c));
      group_->Step();
      for (int i = 1; i < size(); ++i) {
        const int r = (rank() + i) % size();
        if (bytes_in(r, c) <= 0) continue;
        FTUNE_RETURN_IF_ERROR(group_->Await(r, call));
        CopyBytes(group_->stage(r, c), bytes_in(r, c), place(r) + c * kShmStageBytes);
      }
    }
    for (int i = 1; i < size(); ++i) {
      const int r = (rank() + i) % size();
      if (!Staged(r)) CopyBytes(sources_[r], BytesFor(dtype, counts[r]), place(r));
    }
    return absl::OkStatus();
  }

  absl::Status AllToAll(const Call& call) {
    const DType dtype = call.in.dtype;
    std::vector<int64_t> begins(size());  // of what is for this rank
    int64_t largest = 0;                  // of what is staged
    for (int r = 0; r < size(); ++r) {
      std::vector<int64_t> sent(size());
      std::memcpy(sent.data(), Slot(r).inlined, static_cast<size_t>(LeadBytes(call)));
      if (sent[rank()] != call.out_counts[r]) {
        return group_->Fail(
            CountMismatchError(group_->NameOf(rank()), call.out_counts[r], group_->NameOf(r), sent[rank()]));
      }
      begins[r] = Offsets(sent)[rank()];
      if (Staged(r)) largest = std::max(largest, *std::max_element(sent.begin(), sent.end()));
    }
    const std::vector<int64_t> in_offsets = Offsets(call.counts), out_offsets = Offsets(call.out_counts);
    const int64_t piece = StagedPiece(dtype);
    for (int64_t c = 0; c < Chunks(largest, piece); ++c) {
      // Nobody reads what was staged two chunks ago: all have been here since.
      if (Staged(rank())) StagePieces(call, in_offsets, c);
      group_->Step();
      FTUNE_RETURN_IF_ERROR(group_->AwaitAll(call));
      for (int r = 0; r < size(); ++r) {
        const int64_t n = std::min(piece, call.out_counts[r] - c * piece);
        if (!Staged(r) || r == rank() || n <= 0) continue;
        CopyBytes(StagedPiece(r, rank(), c), BytesFor(dtype, n),
                  call.out.data + BytesFor(dtype, out_offsets[r] + c * piece));
      }
    }
    for (int r = 0; r < size(); ++r) {
      if (Staged(r) && r != rank()) continue;
      CopyBytes(sources_[r] + BytesFor(dtype, begins[r]), BytesFor(dtype, call.out_counts[r]),
                call.out.data + BytesFor(dtype, out_offsets[r]));
    }
    return absl::OkStatus();
  }

  std::unique_ptr<ShmGroup> group_;
  ShmChannels channels_;
  uint64_t round_ = 0;  // of collectives
  size_t turn_ = 0;
  // Of this round, by rank:
  std::vector<ShmPlace::Kind> kinds_;
  std::vector<std::byte*> sources_;
  std::vector<std::shared_ptr<ShmMemory>> held_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> JoinSharedMemory(const ShmOptions& options) {
  if (options.size == 1) return std::make_unique<SingleTransport>();
  if (options.size > kShmMaxRanks || options.name.size() > kMaxName) {
    return UserError(ExitCode::kUsage, {.key = "launch",
                                        .found = StrCat(options.size, " ranks on this host, with a name of ",
                                                        options.name.size(), " characters"),
                                        .expected = StrCat("at most ", kShmMaxRanks, " and ", kMaxName)});
  }
  FTUNE_ASSIGN_OR_RETURN(std::shared_ptr<ShmHost> host, ShmHost::Join(options));
  std::vector<int> all;
  for (int rank = 0; rank < options.size; ++rank) all.push_back(rank);
  FTUNE_ASSIGN_OR_RETURN(
      std::unique_ptr<ShmGroup> world,
      ShmGroup::Create(std::move(host), 0, std::move(all), std::make_shared<CallTimeout>(options.timeout)));
  return std::make_unique<ShmTransport>(std::move(world));
}

}  // namespace ftune
