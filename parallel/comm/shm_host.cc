#include "parallel/comm/shm_host.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/time/clock.h"
#include "base/error.h"
#include "base/quiet_thread.h"
#include "base/strings.h"
#include "parallel/comm/mismatch.h"
#include "parallel/comm/status_text.h"

namespace ftune {
namespace {

constexpr absl::Duration kBeat = absl::Milliseconds(500);
// For a message to one who reads nothing because it is stopped.
constexpr absl::Duration kPatience = absl::Seconds(5);
constexpr absl::Duration kLittlePatience = absl::Milliseconds(50);

}  // namespace

absl::StatusOr<std::shared_ptr<ShmHost>> ShmHost::Join(const ShmOptions& options) {
  FTUNE_ASSIGN_OR_RETURN(std::vector<ShmSocket> sockets, ConnectRanks(options));
  Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) {
    return UserError(ExitCode::kRankFailed,
                     {.message = StrCat("cannot make an event descriptor: ", std::strerror(errno))});
  }
  std::shared_ptr<ShmHost> host(new ShmHost(options, std::move(sockets), std::move(wake)));
  host->thread_ = QuietThread([h = host.get()] { h->Listen(); });
  return host;
}

ShmHost::ShmHost(const ShmOptions& options, std::vector<ShmSocket> sockets, Descriptor wake)
    : options_(options),
      tick_(std::min(kBeat, options.heartbeat_timeout / 5)),
      peers_(sockets.size()),
      wake_(std::move(wake)),
      left_(sockets.size(), false) {
  for (size_t rank = 0; rank < sockets.size(); ++rank) peers_[rank].socket = std::move(sockets[rank]);
}

ShmHost::~ShmHost() {
  const uint64_t one = 1;
  while (write(wake_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  thread_.join();
  for (int rank = 0; rank < size(); ++rank) Tell(rank, {.news = ShmNews::kLeave}, -1, kLittlePatience);
}

bool ShmHost::Tell(int rank, const ShmMessage& message, int descriptor, absl::Duration patience) {
  return !peers_[rank].socket || peers_[rank].socket.Send(message, descriptor, patience);
}

absl::StatusOr<SharedBytes> ShmHost::Allocate(int64_t bytes) {
  uint64_t id;
  {
    const std::lock_guard lock(mutex_);
    id = next_id_++;
  }
  std::vector<int> all;
  for (int rank = 0; rank < size(); ++rank) all.push_back(rank);
  FTUNE_ASSIGN_OR_RETURN(std::shared_ptr<ShmMemory> memory, Publish(id, bytes, all));
  {
    const std::lock_guard lock(mutex_);
    own_[memory->data()] = {.id = id, .bytes = memory->bytes()};
  }
  std::byte* data = memory->data();
  return SharedBytes{std::shared_ptr<std::byte>(data,
                                                [memory, id, host = weak_from_this()](std::byte* begin) {
                                                  if (const auto h = host.lock()) h->Drop(id, begin);
                                                  memory->Discard();
                                                }),
                     bytes};
}

void ShmHost::Drop(uint64_t id, const std::byte* data) {
  {
    const std::lock_guard lock(mutex_);
    own_.erase(data);
  }
  for (int rank = 0; rank < size(); ++rank) {
    Tell(rank, {.news = ShmNews::kDrop, .id = id}, -1, kLittlePatience);
  }
}

bool ShmHost::Locate(const std::byte* data, int64_t bytes, Place& place) const {
  const std::lock_guard lock(mutex_);
  auto after = own_.upper_bound(data);
  if (after == own_.begin()) return false;
  const auto& [begin, own] = *--after;
  if (data + bytes > begin + own.bytes) return false;
  place = {.memory = own.id, .offset = data - begin};
  return true;
}

absl::StatusOr<std::unique_ptr<ShmMemory>> ShmHost::Publish(uint64_t id, int64_t bytes,
                                                            std::span<const int> to) {
  FTUNE_RETURN_IF_ERROR(status());
  Descriptor descriptor;
  absl::StatusOr<std::unique_ptr<ShmMemory>> memory = ShmMemory::Create(bytes, descriptor);
  if (!memory.ok()) return Refuse(bytes, memory.status());
  const ShmMessage message = {.news = ShmNews::kMemory, .id = id, .bytes = (*memory)->bytes()};
  for (const int rank : to) {
    // Who is gone is reported by the thread that listens.
    if (rank != this->rank()) Tell(rank, message, descriptor.get(), kPatience);
  }
  return memory;
}

absl::Status ShmHost::Refuse(int64_t bytes, const absl::Status& cause) {
  Abort(UserError(ExitCode::kRankFailed,
                  {.key = StrCat("rank ", NameOf(rank())),
                   .message = StrCat("the system refused ", bytes,
                                     " bytes of shared memory: ", std::string(cause.message())),
                   .hint = "raise its limits (ulimit -v, -f, -n), use fewer ranks on this host, or a "
                           "smaller model"}));
  return status();
}

std::shared_ptr<ShmMemory> ShmHost::Find(int owner, uint64_t id, absl::Time deadline) {
  std::unique_lock lock(mutex_);
  std::shared_ptr<ShmMemory> memory;
  changed_.wait_until(lock, absl::ToChronoTime(deadline), [&] {
    const auto found = found_.find({owner, id});
    if (found != found_.end()) memory = found->second;
    return memory != nullptr || !status_.ok() || left_[owner];
  });
  return memory;
}

bool ShmHost::HasLeft(int rank) const {
  const std::lock_guard lock(mutex_);
  return left_[rank];
}

void ShmHost::Forget(int owner, uint64_t id) {
  std::shared_ptr<ShmMemory> unmapped_outside_the_lock;
  const std::lock_guard lock(mutex_);
  const auto found = found_.find({owner, id});
  if (found == found_.end()) return;
  unmapped_outside_the_lock = std::move(found->second);
  found_.erase(found);
}

void ShmHost::Abort(const absl::Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (!status_.ok() || status.ok()) return;
    status_ = status;
    failed_.store(true, std::memory_order_release);
  }
  changed_.notify_all();
  const ShmMessage message = {.news = ShmNews::kAbort, .text = EncodeStatus(status)};
  for (int rank = 0; rank < size(); ++rank) Tell(rank, message, -1, kLittlePatience);
}

absl::Status ShmHost::status() const {
  if (!failed_.load(std::memory_order_acquire)) return absl::OkStatus();
  const std::lock_guard lock(mutex_);
  return status_;
}

void ShmHost::Listen() {
  absl::Time next_tick = absl::Now() + tick_;
  while (true) {
    std::vector<pollfd> entries = {{.fd = wake_.get(), .events = POLLIN}};
    for (const Peer& peer : peers_) {
      entries.push_back({.fd = peer.listening ? peer.socket.fd() : -1, .events = POLLIN});
    }
    const int64_t left = absl::ToInt64Milliseconds(next_tick - absl::Now()) + 1;
    poll(entries.data(), entries.size(), static_cast<int>(std::max<int64_t>(left, 0)));
    if (entries[0].revents != 0) return;
    for (int rank = 0; rank < size(); ++rank) {
      if (entries[rank + 1].revents != 0) ReceiveFrom(rank);
    }
    if (absl::Now() < next_tick) continue;
    Tick();
    next_tick = absl::Now() + tick_;
  }
}

void ShmHost::Tick() {
  for (int rank = 0; rank < size(); ++rank) {
    Peer& peer = peers_[rank];
    if (!peer.socket || !peer.listening) continue;
    Tell(rank, {.news = ShmNews::kBeat}, -1, absl::ZeroDuration());
    if (++peer.quiet_ticks * tick_ <= options_.heartbeat_timeout) continue;
    peer.listening = false;
    Abort(LostRankError(NameOf(rank), StrCat("nothing was heard of its process for ",
                                             absl::FormatDuration(options_.heartbeat_timeout),
                                             ": it is stopped or its host is overloaded")));
  }
}

void ShmHost::ReceiveFrom(int rank) {
  Peer& peer = peers_[rank];
  while (peer.listening) {
    ShmMessage message;
    switch (peer.socket.Receive(message)) {
      case ShmSocket::Received::kNothing:
        return;
      case ShmSocket::Received::kGone:
        peer.listening = false;
        return Abort(LostRankError(NameOf(rank), "its process died"));
      case ShmSocket::Received::kMessage:
        peer.quiet_ticks = 0;
        Handle(rank, std::move(message));
    }
  }
}

void ShmHost::Handle(int rank, ShmMessage message) {
  switch (message.news) {
    case ShmNews::kMemory: {
      absl::StatusOr<std::unique_ptr<ShmMemory>> memory = ShmMemory::Map(message.descriptor, message.bytes);
      if (!memory.ok()) {
        Refuse(message.bytes, memory.status()).IgnoreError();
        return;
      }
      const std::lock_guard lock(mutex_);
      found_[{rank, message.id}] = *std::move(memory);
      changed_.notify_all();
      return;
    }
    case ShmNews::kDrop:
      return Forget(rank, message.id);
    case ShmNews::kAbort:
      return Abort(HeardStatus(message.text));
    case ShmNews::kLeave: {
      peers_[rank].listening = false;
      const std::lock_guard lock(mutex_);
      left_[rank] = true;
      changed_.notify_all();
      return;
    }
    case ShmNews::kHello:
    case ShmNews::kBeat:
      return;
  }
}

}  // namespace ftune
