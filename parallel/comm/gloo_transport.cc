#include "parallel/comm/gloo_transport.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "parallel/comm/call_timeout.h"
#include "parallel/comm/mismatch.h"
#include "parallel/comm/reduce.h"
#include "parallel/comm/single_transport.h"

namespace ftune {
namespace {

// What one rank sends another of at most so many bytes goes behind the message that every call begins with.
constexpr int64_t kSmall = 8 << 10;
// What moves at once between two ranks: two such pieces are under way, while a third is reduced.
constexpr int64_t kPiece = 1 << 20;

// What every call begins with.
struct Greeting {
  uint64_t sequence = 0;
  uint64_t counts = 0;
  int64_t elements = 0;
  int64_t for_you = 0;  // all-to-all: elements that the sender has for the receiver
  int32_t root = -1;
  CallKind kind = CallKind::kBarrier;
  ReduceOp op = ReduceOp::kSum;
  DType dtype = DType::kF32;
  uint8_t unused = 0;

  CallSignature signature() const {
    return {.sequence = sequence,
            .kind = kind,
            .op = op,
            .dtype = dtype,
            .root = root,
            .elements = elements,
            .counts = counts};
  }
};

// What goes to each rank of a group, and comes from each; nothing to and from oneself.
struct Exchange {
  explicit Exchange(int size) : out(size), in(size) {}
  std::vector<std::span<std::byte>> out;
  std::vector<std::span<std::byte>> in;
};

std::span<std::byte> Part(const Buffer& buffer, int64_t begin, int64_t count) {
  return {buffer.data + BytesFor(buffer.dtype, begin), static_cast<size_t>(BytesFor(buffer.dtype, count))};
}

void Copy(std::span<const std::byte> from, std::byte* to) {
  if (!from.empty() && from.data() != to) std::memmove(to, from.data(), from.size());
}

// The k-th piece of a span.
std::span<std::byte> Piece(std::span<std::byte> bytes, int64_t k) {
  const int64_t begin = std::min<int64_t>(k * kPiece, static_cast<int64_t>(bytes.size()));
  return bytes.subspan(begin, std::min<int64_t>(kPiece, static_cast<int64_t>(bytes.size()) - begin));
}

int64_t Pieces(const std::vector<std::span<std::byte>>& spans) {
  size_t most = 0;
  for (const std::span<std::byte> span : spans) most = std::max(most, span.size());
  return (static_cast<int64_t>(most) + kPiece - 1) / kPiece;
}

// Tells a group's messages from others' on the connections that all groups of a rank share. All members come
// to the same one by themselves.
uint64_t ChannelOf(uint64_t parent, const std::vector<int>& members, uint64_t split) {
  uint64_t hash = 0xcbf29ce484222325u ^ parent;
  const auto mix = [&](uint64_t value) { hash = (hash ^ value) * 0x100000001b3u; };
  mix(split);
  for (const int member : members) mix(static_cast<uint64_t>(member) + 1);
  return hash;
}

class GlooTransport final : public Transport {
 public:
  // `members`: the group's ranks of the link.
  GlooTransport(std::shared_ptr<GlooLink> link, std::vector<int> members, int rank, uint64_t channel)
      : link_(std::move(link)), members_(std::move(members)), rank_(rank), channel_(channel) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(members_.size()); }

  absl::Status Run(const Call& call) override {
    FTUNE_RETURN_IF_ERROR(status());
    switch (call.kind) {
      case CallKind::kAllReduce:
        return AllReduce(call);
      case CallKind::kReduceScatter:
        return ReduceScatter(call);
      case CallKind::kAllGather:
        return AllGather(call);
      case CallKind::kBroadcast:
        return Broadcast(call);
      case CallKind::kAllToAll:
        return AllToAll(call);
      case CallKind::kSend: {
        Exchange exchange(size());
        exchange.out[call.peer] = Part(call.in, 0, call.in.count);
        return MeetAndMove(call, {call.peer}, exchange);
      }
      case CallKind::kReceive: {
        Exchange exchange(size());
        exchange.in[call.peer] = Part(call.out, 0, call.out.count);
        return MeetAndMove(call, {call.peer}, exchange);
      }
      case CallKind::kBarrier:
        return MeetAndMove(call, Others(), Exchange(size()));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<SharedBytes> Allocate(int64_t bytes) override { return AllocatePages(bytes); }

  absl::StatusOr<std::unique_ptr<Transport>> Split(const std::vector<int>& members) override {
    FTUNE_RETURN_IF_ERROR(status());
    if (members.size() == 1) return std::make_unique<SingleTransport>();
    const auto place = std::find(members.begin(), members.end(), rank_);
    std::vector<int> of_link;
    for (const int member : members) of_link.push_back(members_[member]);
    const uint64_t channel = ChannelOf(channel_, members, splits_[members]++);
    auto part = std::make_unique<GlooTransport>(link_, std::move(of_link),
                                                static_cast<int>(place - members.begin()), channel);
    part->timeout_ = timeout_;
    return part;
  }

  void set_timeout(absl::Duration timeout) override { timeout_->set(timeout); }
  void Abort(const absl::Status& status) override { link_->Fail(status); }
  absl::Status status() const override { return link_->status(); }

 private:
  int Name(int rank) const { return link_->name(members_[rank]); }
  CallSignature Named(CallSignature signature) const {
    if (signature.root >= 0 && signature.root < size()) signature.root = Name(signature.root);
    return signature;
  }

  std::vector<int> Others() const {
    std::vector<int> others;
    for (int r = 0; r < size(); ++r) {
      if (r != rank_) others.push_back(r);
    }
    return others;
  }

  absl::Status Fail(const absl::Status& cause) {
    link_->Fail(cause);
    return status();
  }

  absl::Status Await(const Call& call, GlooLink::Round& round) {
    const std::optional<GlooFailure> failure = round.Wait(timeout_->get());
    if (!failure) return absl::OkStatus();
    const CallSignature signature = call.signature();
    const LateReport report = {.rank = link_->rank(),
                               .place = call.point_to_point() ? ~channel_ : channel_,
                               .sequence = signature.sequence,
                               .missing = failure->missing,
                               .call = Named(signature).Describe(),
                               .waited = timeout_->get()};
    switch (failure->kind) {
      case GlooFailure::Kind::kTimeout:
        link_->FailLate(report);
        break;
      case GlooFailure::Kind::kClosed:
        link_->FailClosed(failure->peer, report);
        break;
      case GlooFailure::Kind::kAborted:
        break;  // by whoever aborted, with a status
    }
    return status();
  }

  // Tells the partners what this rank calls, hears what they call, and does not come back with OK unless that
  // is the same. What is small of the exchange has then moved.
  absl::Status Meet(const Call& call, const std::vector<int>& partners, const Exchange& exchange) {
    constexpr int64_t kMessage = static_cast<int64_t>(sizeof(Greeting)) + kSmall;
    const CallSignature mine = call.signature();
    Greeting greeting = {.sequence = mine.sequence,
                         .counts = mine.counts,
                         .elements = mine.elements,
                         .root = mine.root,
                         .kind = mine.kind,
                         .op = mine.op,
                         .dtype = mine.dtype};
    messages_.resize(2 * partners.size() * kMessage);
    std::vector<GlooTransfer> transfers;
    for (size_t p = 0; p < partners.size(); ++p) {
      const int peer = partners[p];
      std::byte* in = messages_.data() + 2 * p * kMessage;
      std::byte* out = in + kMessage;
      if (call.kind == CallKind::kAllToAll) greeting.for_you = call.counts[peer];
      std::memcpy(out, &greeting, sizeof(greeting));
      const std::span<const std::byte> with = Small(exchange.out[peer]);
      Copy(with, out + sizeof(greeting));
      transfers.push_back({GlooTransfer::Way::kReceive, members_[peer], in, kMessage});
      transfers.push_back({GlooTransfer::Way::kSend, members_[peer], out,
                           static_cast<int64_t>(sizeof(greeting) + with.size())});
    }
    const std::unique_ptr<GlooLink::Round> round = link_->Start(channel_, transfers);
    FTUNE_RETURN_IF_ERROR(Await(call, *round));
    for (size_t p = 0; p < partners.size(); ++p) {
      Greeting theirs;
      std::memcpy(&theirs, messages_.data() + 2 * p * kMessage, sizeof(theirs));
      FTUNE_RETURN_IF_ERROR(Check(call, greeting, partners[p], theirs));
    }
    for (size_t p = 0; p < partners.size(); ++p) {
      Copy({messages_.data() + 2 * p * kMessage + sizeof(Greeting), Small(exchange.in[partners[p]]).size()},
           exchange.in[partners[p]].data());
    }
    return absl::OkStatus();
  }

  absl::Status Check(const Call& call, const Greeting& mine, int peer, const Greeting& theirs) {
    if (!AreOneCall(mine.signature(), theirs.signature())) {
      return Fail(
          MismatchError({{Name(rank_), Named(mine.signature())}, {Name(peer), Named(theirs.signature())}}));
    }
    if (call.kind == CallKind::kAllToAll && theirs.for_you != call.out_counts[peer])
      return Fail(CountMismatchError(Name(rank_), call.out_counts[peer], Name(peer), theirs.for_you));
    return absl::OkStatus();
  }

  static std::span<std::byte> Small(std::span<std::byte> bytes) {
    return static_cast<int64_t>(bytes.size()) <= kSmall ? bytes : std::span<std::byte>();
  }

  absl::Status Move(const Call& call, const Exchange& exchange) {
    return MovePieces(
        call, std::max(Pieces(exchange.out), Pieces(exchange.in)),
        [&](int64_t k, std::vector<GlooTransfer>& transfers) {
          for (const int r : Others()) {
            AddReceive(r, Piece(exchange.in[r], k), transfers);
            AddSend(r, Piece(exchange.out[r], k), transfers);
          }
        },
        [](int64_t) {});
  }

  void AddReceive(int from, std::span<std::byte> bytes, std::vector<GlooTransfer>& transfers) const {
    if (!bytes.empty())
      transfers.push_back({GlooTransfer::Way::kReceive, members_[from], bytes.data(), std::ssize(bytes)});
  }
  void AddSend(int to, std::span<std::byte> bytes, std::vector<GlooTransfer>& transfers) const {
    if (!bytes.empty())
      transfers.push_back({GlooTransfer::Way::kSend, members_[to], bytes.data(), std::ssize(bytes)});
  }

  // add(k, transfers) adds the transfers of the k-th piece, done(k) is called when they are made. The next
  // piece is under way meanwhile, the one after it not yet.
  template <class Add, class Done>
  absl::Status MovePieces(const Call& call, int64_t pieces, const Add& add, const Done& done) {
    const auto start = [&](int64_t k) {
      std::vector<GlooTransfer> transfers;
      add(k, transfers);
      return link_->Start(channel_, transfers);
    };
    std::unique_ptr<GlooLink::Round> current = pieces > 0 ? start(0) : nullptr;
    for (int64_t k = 0; k < pieces; ++k) {
      std::unique_ptr<GlooLink::Round> next = k + 1 < pieces ? start(k + 1) : nullptr;
      FTUNE_RETURN_IF_ERROR(Await(call, *current));
      done(k);
      current = std::move(next);
    }
    return absl::OkStatus();
  }

  absl::Status MeetAndMove(const Call& call, const std::vector<int>& partners, const Exchange& exchange) {
    FTUNE_RETURN_IF_ERROR(Meet(call, partners, exchange));
    Exchange left(size());
    for (const int r : partners) {
      if (Small(exchange.out[r]).empty()) left.out[r] = exchange.out[r];
      if (Small(exchange.in[r]).empty()) left.in[r] = exchange.in[r];
    }
    return Move(call, left);
  }

  // Room for what the other ranks send to be reduced.
  absl::StatusOr<std::byte*> Scratch(int64_t bytes) {
    if (scratch_.bytes < bytes) {
      FTUNE_ASSIGN_OR_RETURN(scratch_, AllocatePages(bytes));
    }
    return scratch_.data.get();
  }

  // out = the reduction of this rank's `own` bytes and those that the others sent, rank by rank, to
  // scratch + i * stride.
  void ReduceReceived(const Call& call, const std::byte* own, const std::byte* scratch, int64_t stride,
                      int64_t count, std::byte* out) const {
    if (count == 0) return;
    std::vector<const std::byte*> sources;
    for (int r = 0, other = 0; r < size(); ++r)
      sources.push_back(r == rank_ ? own : scratch + stride * other++);
    Reduce(call.in.dtype, call.op, sources, count, out);
  }

  // Each rank sends every other that one's share of `in` and reduces its own share to `out`: where
  // shares are too large to go with the greetings.
  absl::Status ReduceShares(const Call& call, const std::vector<int64_t>& counts, std::byte* out) {
    const std::vector<int64_t> offsets = Offsets(counts);
    std::vector<std::span<std::byte>> shares;
    for (int r = 0; r < size(); ++r) shares.push_back(Part(call.in, offsets[r], counts[r]));
    const int64_t ring = kPiece * (size() - 1);  // of one piece
    FTUNE_ASSIGN_OR_RETURN(std::byte* const scratch, Scratch(2 * ring));
    return MovePieces(
        call, Pieces(shares),
        [&](int64_t k, std::vector<GlooTransfer>& transfers) {
          const size_t own = Piece(shares[rank_], k).size();
          std::byte* to = scratch + ring * (k % 2);
          for (const int r : Others()) {
            AddReceive(r, {to, own}, transfers);
            AddSend(r, Piece(shares[r], k), transfers);
            to += kPiece;
          }
        },
        [&](int64_t k) {
          const std::span<std::byte> own = Piece(shares[rank_], k);
          const int64_t count = std::ssize(own) / BytesFor(call.in.dtype, 1);
          ReduceReceived(call, own.data(), scratch + ring * (k % 2), kPiece, count, out + k * kPiece);
        });
  }

  Exchange Gathering(const Buffer& all, const std::vector<int64_t>& counts) const {
    const std::vector<int64_t> offsets = Offsets(counts);
    Exchange exchange(size());
    for (const int r : Others()) {
      exchange.out[r] = Part(all, offsets[rank_], counts[rank_]);
      exchange.in[r] = Part(all, offsets[r], counts[r]);
    }
    return exchange;
  }

  absl::Status AllReduce(const Call& call) {
    const int64_t bytes = call.in.bytes();
    if (bytes <= kSmall) {
      FTUNE_ASSIGN_OR_RETURN(std::byte* const scratch, Scratch(bytes * (size() - 1)));
      Exchange exchange(size());
      std::byte* to = scratch;
      for (const int r : Others()) {
        exchange.out[r] = Part(call.in, 0, call.in.count);
        exchange.in[r] = {to, static_cast<size_t>(bytes)};
        to += bytes;
      }
      FTUNE_RETURN_IF_ERROR(Meet(call, Others(), exchange));
      ReduceReceived(call, call.in.data, scratch, bytes, call.in.count, call.out.data);
      return absl::OkStatus();
    }
    const std::vector<int64_t> counts = EvenCounts(call.in.count, size(), 16);
    FTUNE_RETURN_IF_ERROR(Meet(call, Others(), Exchange(size())));
    FTUNE_RETURN_IF_ERROR(ReduceShares(call, counts, Part(call.out, Offsets(counts)[rank_], 0).data()));
    return Move(call, Gathering(call.out, counts));
  }

  absl::Status ReduceScatter(const Call& call) {
    const int64_t most = *std::max_element(call.counts.begin(), call.counts.end());
    if (BytesFor(call.in.dtype, most) > kSmall) {
      FTUNE_RETURN_IF_ERROR(Meet(call, Others(), Exchange(size())));
      return ReduceShares(call, call.counts, call.out.data);
    }
    const std::vector<int64_t> offsets = Offsets(call.counts);
    const int64_t own = call.counts[rank_], stride = BytesFor(call.in.dtype, own);
    FTUNE_ASSIGN_OR_RETURN(std::byte* const scratch, Scratch(stride * (size() - 1)));
    Exchange exchange(size());
    std::byte* to = scratch;
    for (const int r : Others()) {
      exchange.out[r] = Part(call.in, offsets[r], call.counts[r]);
      exchange.in[r] = {to, static_cast<size_t>(stride)};
      to += stride;
    }
    FTUNE_RETURN_IF_ERROR(Meet(call, Others(), exchange));
    ReduceReceived(call, Part(call.in, offsets[rank_], own).data(), scratch, stride, own, call.out.data);
    return absl::OkStatus();
  }

  absl::Status AllGather(const Call& call) {
    Copy(Part(call.in, 0, call.in.count), Part(call.out, Offsets(call.counts)[rank_], 0).data());
    return MeetAndMove(call, Others(), Gathering(call.out, call.counts));
  }

  // What is large goes out in shares, which the ranks then gather: the root sends it twice and not size - 1
  // times.
  absl::Status Broadcast(const Call& call) {
    const bool in_shares = size() > 2 && call.in.bytes() > kSmall;
    const std::vector<int64_t> counts =
        in_shares ? EvenCounts(call.in.count, size()) : std::vector<int64_t>(size(), call.in.count);
    const std::vector<int64_t> offsets = in_shares ? Offsets(counts) : std::vector<int64_t>(size(), 0);
    Exchange exchange(size());
    if (rank_ == call.peer) {
      for (const int r : Others()) exchange.out[r] = Part(call.in, offsets[r], counts[r]);
    } else {
      exchange.in[call.peer] = Part(call.out, offsets[rank_], counts[rank_]);
    }
    FTUNE_RETURN_IF_ERROR(MeetAndMove(call, Others(), exchange));
    if (!in_shares) return absl::OkStatus();
    Exchange gathering = Gathering(call.out, counts);
    if (rank_ == call.peer) gathering.in.assign(size(), {});  // it has all, and its buffer is being read
    gathering.out[call.peer] = {};
    return Move(call, gathering);
  }

  absl::Status AllToAll(const Call& call) {
    const std::vector<int64_t> from = Offsets(call.counts), to = Offsets(call.out_counts);
    if (call.counts[rank_] != call.out_counts[rank_])
      return Fail(CountMismatchError(Name(rank_), call.out_counts[rank_], Name(rank_), call.counts[rank_]));
    Copy(Part(call.in, from[rank_], call.counts[rank_]), Part(call.out, to[rank_], 0).data());
    Exchange exchange(size());
    for (const int r : Others()) {
      exchange.out[r] = Part(call.in, from[r], call.counts[r]);
      exchange.in[r] = Part(call.out, to[r], call.out_counts[r]);
    }
    return MeetAndMove(call, Others(), exchange);
  }

  std::shared_ptr<GlooLink> link_;
  std::vector<int> members_;
  int rank_;
  uint64_t channel_;
  std::shared_ptr<CallTimeout> timeout_ = std::make_shared<CallTimeout>();
  std::map<std::vector<int>, uint64_t> splits_;  // how often into these members
  std::vector<std::byte> messages_;
  SharedBytes scratch_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Transport>> JoinGloo(const GlooOptions& options) {
  if (options.size == 1) return std::make_unique<SingleTransport>();
  FTUNE_ASSIGN_OR_RETURN(std::shared_ptr<GlooLink> link, GlooLink::Connect(options));
  std::vector<int> members(options.size);
  std::iota(members.begin(), members.end(), 0);
  return std::make_unique<GlooTransport>(std::move(link), members, options.rank, ChannelOf(0, members, 0));
}

}  // namespace ftune
