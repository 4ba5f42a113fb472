#include "parallel/comm/gloo_link.h"

#include <gloo/context.h>
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>
#include <set>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/quiet_thread.h"
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

std::vector<int> NamesOf(const GlooOptions& options) {
  if (!options.names.empty()) return options.names;
  std::vector<int> names(options.size);
  std::iota(names.begin(), names.end(), 0);
  return names;
}

std::string AddressKey(const GlooOptions& options, int of, int for_rank) {
  return StrCat(options.prefix, "/gloo/", of, "/", for_rank);
}

// gloo's connections of a rank to all others. As gloo::rendezvous::Context, but that the making ends where
// the store knows of trouble, and in time.
class Mesh final : public gloo::Context {
 public:
  using gloo::Context::Context;

  // Throws what gloo throws.
  absl::Status Connect(const GlooOptions& options) {
    const absl::Time deadline = absl::Now() + options.timeout;
    gloo::transport::tcp::attr attr(options.address.c_str());
    {
      const SignalsBlocked for_its_thread;
      device_ = gloo::transport::tcp::CreateDevice(attr);
    }
    transportContext_ = device_->createContext(rank, size);
    setTimeout(Milliseconds(options.timeout));
    transportContext_->setTimeout(Milliseconds(options.timeout));
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      const std::vector<char> address = transportContext_->createPair(peer)->address().bytes();
      FTUNE_RETURN_IF_ERROR(
          options.store->Set(AddressKey(options, rank, peer), std::string(address.begin(), address.end())));
    }
    Observer observer(*this, options, deadline);
    for (int peer = 0; peer < size; ++peer) {
      if (peer == rank) continue;
      absl::StatusOr<std::string> address =
          options.store->Get(AddressKey(options, peer, rank), deadline - absl::Now());
      if (absl::IsDeadlineExceeded(address.status())) return NotJoined(options, peer);
      FTUNE_RETURN_IF_ERROR(address.status());
      observer.set_peer(peer);
      try {
        getPair(peer)->connect({address->begin(), address->end()});
      } catch (const std::exception&) {
        // Perhaps because that rank has died, which the store is told in a moment.
        FTUNE_RETURN_IF_ERROR(observer.AwaitTrouble());
        throw;
      }
      FTUNE_RETURN_IF_ERROR(observer.trouble());
    }
    return absl::OkStatus();
  }

 private:
  static absl::Status NotJoined(const GlooOptions& options, int peer) {
    return UserError(
        ExitCode::kTimeout,
        {.key = StrCat("rank ", NamesOf(options)[peer]),
         .message = StrCat("it did not join the others within ", absl::FormatDuration(options.timeout)),
         .hint = "look at its log and its host; if it is only slow, raise launch.start_timeout"});
  }

  // Closes all connections, on which the other thread waits, where it waits in vain.
  class Observer {
   public:
    Observer(Mesh& mesh, const GlooOptions& options, absl::Time deadline)
        : mesh_(mesh), options_(options), deadline_(deadline), thread_(QuietThread([this] { Run(); })) {}
    ~Observer() {
      {
        const std::lock_guard lock(mutex_);
        ending_ = true;
      }
      changed_.notify_all();
      thread_.join();
    }

    void set_peer(int peer) {
      const std::lock_guard lock(mutex_);
      peer_ = peer;
    }
    absl::Status trouble() const {
      const std::lock_guard lock(mutex_);
      return trouble_;
    }
    absl::Status AwaitTrouble() {
      std::unique_lock lock(mutex_);
      changed_.wait_for(lock, absl::ToChronoNanoseconds(2 * kLook), [&] { return !trouble_.ok(); });
      return trouble_;
    }

   private:
    static constexpr absl::Duration kLook = absl::Milliseconds(500);

    void Run() {
      std::unique_lock lock(mutex_);
      while (!changed_.wait_for(lock, absl::ToChronoNanoseconds(kLook), [&] { return ending_; })) {
        lock.unlock();
        absl::Status trouble = options_.store->Trouble(kLook);
        // Where rank 0 has ended, the store went with it.
        if (trouble.ok()) trouble = CheckStore();
        lock.lock();
        if (trouble.ok() && absl::Now() >= deadline_) trouble = NotJoined(options_, peer_);
        if (trouble.ok()) continue;
        trouble_ = trouble;
        changed_.notify_all();
        mesh_.closeConnections();
        return;
      }
    }

    // What this rank has set itself is there, if anything is.
    absl::Status CheckStore() const {
      const std::string key = AddressKey(options_, mesh_.rank, (mesh_.rank + 1) % mesh_.size);
      const absl::Status status = options_.store->Get(key, kLook).status();
      return absl::IsDeadlineExceeded(status) ? absl::OkStatus() : status;
    }

    Mesh& mesh_;
    const GlooOptions& options_;
    const absl::Time deadline_;
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    bool ending_ = false;
    int peer_ = 0;  // that is being connected
    absl::Status trouble_;
    std::thread thread_;
  };
};

// gloo writes to connections that their peer has closed, which by default ends the process.
void IgnoreBrokenPipes() {
  struct sigaction action = {};
  if (sigaction(SIGPIPE, nullptr, &action) != 0 || action.sa_handler != SIG_DFL) return;
  action.sa_handler = SIG_IGN;
  sigaction(SIGPIPE, &action, nullptr);
}

class TcpLink final : public GlooLink {
 public:
  explicit TcpLink(const GlooOptions& options)
      : names_(NamesOf(options)),
        context_(std::make_shared<Mesh>(options.rank, options.size)),
        watch_(std::make_unique<GlooWatch>(GlooWatchOptions{.rank = options.rank,
                                                            .names = names_,
                                                            .store = options.store,
                                                            .prefix = options.prefix,
                                                            .heartbeat_timeout = options.heartbeat_timeout,
                                                            .first_serves = options.first_serves})) {}

  ~TcpLink() override {
    watch_->Leave();
    Close();
  }

  absl::Status Connect(const GlooOptions& options) {
    IgnoreBrokenPipes();
    const absl::Time begin = absl::Now();
    FTUNE_RETURN_IF_ERROR(watch_->Enter());
    try {
      FTUNE_RETURN_IF_ERROR(context_->Connect(options));
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

  void FailClosed(int peer, const LateReport& report) override {
    if (status().ok()) Fail(watch_->CauseOf(peer, report));
  }
  void FailLate(const LateReport& report) override {
    if (status().ok()) Fail(watch_->Settle(report));
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
      if (!link_.status().ok()) return GlooFailure{GlooFailure::Kind::kAborted, 0, {}};
      if (!started_) return GlooFailure{GlooFailure::Kind::kClosed, failed_to_start_, {}};
      const absl::Time deadline = absl::Now() + timeout;
      for (size_t p = 0; p < parts_.size(); ++p) {
        const Part& part = parts_[p];
        const int peer = part.transfer.peer;
        const std::chrono::milliseconds left = Milliseconds(deadline - absl::Now());
        try {
          const bool done = WaitFor(part, left);
          if (!done) return GlooFailure{GlooFailure::Kind::kAborted, peer, {}};
        } catch (const std::exception&) {
          // gloo says only by its text which it was.
          const bool late = absl::Now() + absl::Milliseconds(1) >= deadline;
          GlooFailure failure{late ? GlooFailure::Kind::kTimeout : GlooFailure::Kind::kClosed, peer, {}};
          if (late) failure.missing.push_back(peer);
          AddMissing(p + 1, failure);
          return failure;
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

    static bool WaitFor(const Part& part, std::chrono::milliseconds timeout) {
      return part.transfer.way == GlooTransfer::Way::kSend ? part.buffer->waitSend(timeout)
                                                           : part.buffer->waitRecv(timeout);
    }

    // The peers of what is not done from part `begin` on.
    void AddMissing(size_t begin, GlooFailure& failure) const {
      for (size_t p = begin; p < parts_.size(); ++p) {
        const int peer = parts_[p].transfer.peer;
        if (peer == failure.peer) continue;
        bool done = false;
        try {
          done = WaitFor(parts_[p], std::chrono::milliseconds(1));
        } catch (const std::exception&) {
          // It is late, or closed.
        }
        std::vector<int>& missing = failure.missing;
        if (!done && std::find(missing.begin(), missing.end(), peer) == missing.end())
          missing.push_back(peer);
      }
    }

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
  std::shared_ptr<Mesh> context_;
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
