#include "parallel/launch/frame_links.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/time/clock.h"
#include "base/monotonic_clock.h"
#include "base/quiet_thread.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr char kAlive[] = "alive";
constexpr size_t kWorthErasing = size_t{1} << 20;

void SetNonBlocking(int fd) { fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK); }

void Notify(const Descriptor& descriptor) {
  const uint64_t one = 1;
  // It is full only where it is readable already.
  [[maybe_unused]] const ssize_t written = write(descriptor.get(), &one, sizeof(one));
}

void Clear(const Descriptor& descriptor) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t taken = read(descriptor.get(), &count, sizeof(count));
}

}  // namespace

struct FrameLinks::Link {
  Descriptor in, out;
  FrameReader reader;
  std::string waiting;  // to be sent
  size_t written = 0;   // of that
  absl::Duration heard, said;
  bool silent = false;
  bool closing = false;  // when all is sent
  bool open = true;
};

FrameLinks::FrameLinks(const Options& options)
    : options_(options),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      events_ready_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  thread_ = QuietThread([this] { Run(); });
}

FrameLinks::~FrameLinks() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  Notify(wake_);
  thread_.join();
}

int FrameLinks::Add(Descriptor in, Descriptor out, bool awaits_begin, bool begins) {
  SetNonBlocking(in.get());
  SetNonBlocking(out.get());
  const std::lock_guard lock(mutex_);
  const absl::Duration now = MonotonicNow();
  links_.push_back(std::make_unique<Link>(Link{.in = std::move(in),
                                               .out = std::move(out),
                                               .reader = FrameReader(awaits_begin),
                                               .waiting = begins ? std::string(kFramesBegin) : "",
                                               .heard = now,
                                               .said = now}));
  Notify(wake_);
  return static_cast<int>(links_.size()) - 1;
}

void FrameLinks::Send(int link, const Frame& frame) {
  std::string wire = EncodeFrame(frame);
  {
    const std::lock_guard lock(mutex_);
    Link& to = *links_[link];
    if (!to.open || to.closing) return;
    to.waiting += wire;
    to.said = MonotonicNow();
  }
  Notify(wake_);
}

void FrameLinks::Close(int link, bool flush) {
  {
    const std::lock_guard lock(mutex_);
    Link& to = *links_[link];
    if (!to.open) return;
    to.closing = true;
    if (!flush) {
      to.waiting.clear();
      to.written = 0;
    }
  }
  Notify(wake_);
}

std::vector<LinkEvent> FrameLinks::Take() {
  const std::lock_guard lock(mutex_);
  Clear(events_ready_);
  return std::exchange(events_, {});
}

void FrameLinks::Pause(bool paused) {
  const std::lock_guard lock(mutex_);
  paused_ = paused;
  for (const std::unique_ptr<Link>& link : links_) link->heard = MonotonicNow();
}

void FrameLinks::Flush(absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  sent_.wait_for(lock, absl::ToChronoMilliseconds(timeout), [this] {
    return std::all_of(links_.begin(), links_.end(), [](const std::unique_ptr<Link>& link) {
      return !link->open || link->waiting.empty();
    });
  });
}

std::string FrameLinks::Noise(int link) {
  const std::lock_guard lock(mutex_);
  return links_[link]->reader.Noise();
}

void FrameLinks::Tell(LinkEvent event) {
  events_.push_back(std::move(event));
  Notify(events_ready_);
}

void FrameLinks::Drop(Link& link, const std::string& why) {
  if (!link.open) return;
  link.open = false;
  link.in = Descriptor();
  link.out = Descriptor();
  link.waiting.clear();
  link.written = 0;
  const auto number = std::find_if(links_.begin(), links_.end(),
                                   [&](const std::unique_ptr<Link>& other) { return other.get() == &link; });
  Tell({.link = static_cast<int>(number - links_.begin()), .kind = LinkEvent::Kind::kClosed, .why = why});
}

void FrameLinks::Read(Link& link) {
  const int number = static_cast<int>(
      std::find_if(links_.begin(), links_.end(), [&](const auto& other) { return other.get() == &link; }) -
      links_.begin());
  char bytes[1 << 16];
  while (link.open) {
    const ssize_t count = read(link.in.get(), bytes, sizeof(bytes));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) return Drop(link, count == 0 ? "" : strerror(errno));
    link.heard = MonotonicNow();
    link.silent = false;
    link.reader.Add(std::string_view(bytes, static_cast<size_t>(count)));
    while (true) {
      absl::StatusOr<std::optional<Frame>> frame = link.reader.Next();
      if (!frame.ok()) return Drop(link, std::string(frame.status().message()));
      if (!*frame) break;
      if ((*frame)->kind == kAlive) continue;
      Tell({.link = number, .kind = LinkEvent::Kind::kFrame, .frame = **std::move(frame)});
    }
  }
}

void FrameLinks::Write(Link& link) {
  while (link.open && !link.waiting.empty()) {
    const std::string_view rest = std::string_view(link.waiting).substr(link.written);
    const ssize_t count = write(link.out.get(), rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) return;
    if (count < 0) {
      // What the other end has still said comes first.
      Read(link);
      return Drop(link, strerror(errno));
    }
    link.written += static_cast<size_t>(count);
    // Not after each piece: what is waiting may be much.
    if (link.written < link.waiting.size() && link.written < kWorthErasing) continue;
    link.waiting.erase(0, std::exchange(link.written, 0));
  }
  if (link.closing) Drop(link, "");
}

void FrameLinks::Step() {
  std::vector<pollfd> waits = {{.fd = wake_.get(), .events = POLLIN}};
  std::vector<Link*> polled;
  {
    const std::lock_guard lock(mutex_);
    for (const std::unique_ptr<Link>& link : links_) {
      if (!link->open) continue;
      waits.push_back({.fd = link->in.get(), .events = POLLIN});
      const bool sends = !link->waiting.empty() || link->closing;
      waits.push_back({.fd = sends ? link->out.get() : -1, .events = POLLOUT});
      polled.push_back(link.get());
    }
  }
  poll(waits.data(), waits.size(), static_cast<int>(absl::ToInt64Milliseconds(options_.interval) / 4));
  const std::lock_guard lock(mutex_);
  Clear(wake_);
  for (size_t i = 0; i < polled.size(); ++i) {
    if (waits[1 + 2 * i].revents != 0) Read(*polled[i]);
    if (waits[2 + 2 * i].revents != 0) Write(*polled[i]);
  }
  const absl::Duration now = MonotonicNow();
  for (int number = 0; number < std::ssize(links_); ++number) {
    Link& link = *links_[number];
    if (!link.open) continue;
    if (now - link.said >= options_.interval && link.waiting.empty() && !link.closing) {
      link.waiting = EncodeFrame({.kind = kAlive});
      link.said = now;
    }
    // Until it begins whoever makes the connection knows how long to wait.
    if (!paused_ && !link.silent && link.reader.begun() && now - link.heard >= options_.timeout) {
      link.silent = true;
      Tell({.link = number, .kind = LinkEvent::Kind::kSilent});
    }
  }
  sent_.notify_all();
}

void FrameLinks::Run() {
  while (true) {
    {
      const std::lock_guard lock(mutex_);
      if (done_) return;
    }
    Step();
  }
}

}  // namespace ftune
