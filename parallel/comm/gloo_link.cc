#include "parallel/comm/gloo_link.h"

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <signal.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <mutex>
#include <numeric>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/strings.h"
#include "parallel/comm/gloo_watch.h"

namespace ftune {
namespace {

using gloo::transport::UnboundBuffer;

std::chrono::milliseconds Milliseconds(absl::Duration duration) {
  // gloo takes 0 for "no limit", and adds what it gets to a clock.
  return std::chrono::milliseconds(std::clamp<int64_t>(absl::ToInt64Milliseconds(duration), 1,
                                                       absl::ToInt64Milliseconds(absl::Hours(24))));
}

// What crosses gloo's own frames where our store fails.
struct StoreFailure {
  std::string key;
  absl::Status status;
};

// Our store as gloo's.
class StoreAdapter final : public gloo::rendezvous::Store {
 public:
  StoreAdapter(KeyValueStore& store, std::string prefix, absl::Duration timeout)
      : store_(store), prefix_(std::move(prefix)), deadline_(absl::Now() + timeout) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    const absl::Status status = store_.Set(StrCat(prefix_, "/", key), std::string(data.begin(), data.end()));
    if (!status.ok()) throw StoreFailure{key, status};
  }

  std::vector<char> get(const std::string& key) override {
    absl::StatusOr<std::string> value = store_.Get(StrCat(prefix_, "/", key), deadline_ - absl::Now());
    if (!value.ok()) throw StoreFailure{key, value.status()};
    return {value->begin(), value->end()};
  }

  void wait(const std::vector<std::string>& keys) override {
    for (const std::string& key : keys) get(key);
  }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds&) override { wait(keys); }

 private:
  KeyValueStore& store_;
  std::string prefix_;
  absl::Time deadline_;
};

// The rank whose key ("3", "rank_3") gloo looked for.
int RankOfKey(const std::string& key) {
  const size_t digits = key.find_last_not_of("0123456789") + 1;
  int rank = 0;
  std::from_chars(key.data() + digits, key.data() + key.size(), rank);
  return rank;
}

// gloo writes to connections that their peer has closed, which by default ends the process.
void IgnoreBrokenPipes() {
  struct sigaction action = {};
  if (sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

std::vector<int> NamesOf(const GlooOptions& options) {
  if (!options.names.empty()) return options.names;
  std::vector<int> names(options.size);
  std::iota(names.begin(), names.end(), 0);
  return names;
}

class TcpLink final : public GlooLink {
 public:
  explicit TcpLink(const GlooOptions& options)
      : names_(NamesOf(options)),
        context_(std::make_shared<gloo::rendezvous::Context>(options.rank, options.size)),
        watch_(
            std::make_unique<GlooWatch>(GlooWatchOptions{.rank = options.rank,
                                                         .names = names_,
                                                         .store = options.store,
                                                         .prefix = options.prefix,
                                                         .heartbeat_timeout = options.heartbeat_timeout})) {}

  ~TcpLink() override {
    watch_->Leave();
    Close();
  }

  absl::Status Connect(const GlooOptions& options) {
    IgnoreBrokenPipes();
    const absl::Time begin = absl::Now();
    FTUNE_RETURN_IF_ERROR(watch_->Enter());
    StoreAdapter store(*options.store, StrCat(options.prefix, "/gloo"), options.timeout);
    try {
      gloo::transport::tcp::attr attr(options.address.c_str());
      std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(attr);
      context_->setTimeout(Milliseconds(options.timeout));
      context_->connectFullMesh(store, device);
    } catch (const StoreFailure& failure) {
      if (!absl::IsDeadlineExceeded(failure.status)) return failure.status;
      return UserError(
          ExitCode::kTimeout,
          {.key = StrCat("rank ", name(RankOfKey(failure.key))),
           .message = StrCat("it did not join the others within ", absl::FormatDuration(options.timeout)),
           .hint = "look at its log and its host; if it is only slow, raise launch.start_timeout"});
    } catch (const std::exception& error) {
      const bool late = absl::Now() - begin >= options.timeout;
      return UserError(
          late ? ExitCode::kTimeout : ExitCode::kRankFailed,
          {.key = StrCat("rank ", name(options.rank)),
           .message = StrCat("it could not connect to the other hosts from address ", options.address),
           .found = error.what(),
           .hint = "the address must be one of this host's, which the others can reach"});
    }
    watch_->Start([this](const absl::Status& cause) { Fail(cause); });
    return absl::OkStatus();
  }

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }
  int name(int rank) const override { return names_[rank]; }

  std::unique_ptr<Round> Start(uint64_t channel, std::span<const GlooTransfer> transfers) override {
    return std::make_unique<TcpRound>(*this, channel, transfers);
  }

  void Fail(const absl::Status& cause) override {
    if (!Keep(cause)) return;
    Wake();  // at once: the store may not answer
    watch_->Tell(cause);
    Close();
  }

  void FailClosed(int peer) override {
    if (status().ok()) Fail(watch_->CauseOf(peer));
  }

  absl::Status status() const override {
    const std::lock_guard lock(mutex_);
    return status_;
  }

 private:
  class TcpRound final : public Round {
   public:
    TcpRound(TcpLink& link, uint64_t channel, std::span<const GlooTransfer> transfers) : link_(link) {
      for (const GlooTransfer& t : transfers) {
        parts_.push_back({t, link_.context_->createUnboundBuffer(t.data, static_cast<size_t>(t.bytes))});
      }
      link_.Enter(parts_);
      try {
        for (const Part& part : parts_) {
          failed_to_start_ = part.transfer.peer;
          if (part.transfer.way == GlooTransfer::Way::kReceive)
            part.buffer->recv(part.transfer.peer, channel);
        }
        for (const Part& part : parts_) {
          failed_to_start_ = part.transfer.peer;
          if (part.transfer.way == GlooTransfer::Way::kSend) part.buffer->send(part.transfer.peer, channel);
        }
        started_ = true;
      } catch (const std::exception&) {
        // A connection that is closed; Wait says so.
      }
    }

    ~TcpRound() override { link_.Leave(parts_); }

    std::optional<GlooFailure> Wait(absl::Duration timeout) override {
      if (!link_.status().ok()) return GlooFailure{GlooFailure::Kind::kAborted, 0};
      if (!started_) return GlooFailure{GlooFailure::Kind::kClosed, failed_to_start_};
      const absl::Time deadline = absl::Now() + timeout;
      for (const Part& part : parts_) {
        const int peer = part.transfer.peer;
        const std::chrono::milliseconds left = Milliseconds(deadline - absl::Now());
        try {
          const bool done = part.transfer.way == GlooTransfer::Way::kSend ? part.buffer->waitSend(left)
                                                                          : part.buffer->waitRecv(left);
          if (!done) return GlooFailure{GlooFailure::Kind::kAborted, peer};
        } catch (const std::exception&) {
          // gloo says only by its text which it was.
          const bool late = absl::Now() + absl::Milliseconds(1) >= deadline;
          return GlooFailure{late ? GlooFailure::Kind::kTimeout : GlooFailure::Kind::kClosed, peer};
        }
      }
      return std::nullopt;
    }

   private:
    friend class TcpLink;
    struct Part {
      GlooTransfer transfer;
      std::unique_ptr<UnboundBuffer> buffer;
    };

    TcpLink& link_;
    std::vector<Part> parts_;
    bool started_ = false;
    int failed_to_start_ = 0;
  };

  // Buffers that somebody may wait for.
  void Enter(const std::vector<TcpRound::Part>& parts) {
    const std::lock_guard lock(mutex_);
    for (const TcpRound::Part& part : parts) waited_for_.insert(part.buffer.get());
  }
  void Leave(const std::vector<TcpRound::Part>& parts) {
    const std::lock_guard lock(mutex_);
    for (const TcpRound::Part& part : parts) waited_for_.erase(part.buffer.get());
  }

  // Whether `cause` is the first.
  bool Keep(const absl::Status& cause) {
    const std::lock_guard lock(mutex_);
    if (!status_.ok()) return false;
    status_ = cause;
    return true;
  }

  void Wake() {
    const std::lock_guard lock(mutex_);
    for (UnboundBuffer* buffer : waited_for_) {
      buffer->abortWaitRecv();
      buffer->abortWaitSend();
    }
  }

  void Close() {
    try {
      context_->closeConnections();
    } catch (const std::exception&) {
      // Closed already, by gloo itself after a time-out.
    }
  }

  const std::vector<int> names_;
  std::shared_ptr<gloo::rendezvous::Context> context_;
  std::unique_ptr<GlooWatch> watch_;
  mutable std::mutex mutex_;
  absl::Status status_;
  std::set<UnboundBuffer*> waited_for_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<GlooLink>> GlooLink::Connect(const GlooOptions& options) {
  auto link = std::make_shared<TcpLink>(options);
  FTUNE_RETURN_IF_ERROR(link->Connect(options));
  return link;
}

}  // namespace ftune
