// link_impair LINK_A LINK_B DELAY_MS JITTER_MS LOSS_PERCENT [SEED]
//
// Copies Ethernet frames between two links, both ways: each is held for DELAY_MS (give or take JITTER_MS) and
// lost with LOSS_PERCENT. Their order is kept. Does what `tc netem` does where the kernel has none.
// PACKET_VNET_HDR takes along what a virtual link has left to the card, so that nothing needs to be switched
// off there.

#include <arpa/inet.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <random>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC
constexpr size_t kMostQueued = size_t{64} << 20;
constexpr std::chrono::microseconds kRetry(200);

struct Frame {
  Clock::time_point due;
  std::vector<char> bytes;
};

struct Direction {
  int in, out;
  std::deque<Frame> frames = {};
  size_t queued = 0;  // bytes
};

struct Impairment {
  double delay_ms, jitter_ms, loss_percent;
};

[[noreturn]] void Fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

int OpenLink(const char* name) {
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_NONBLOCK, 0);
  if (fd < 0) Fail("socket");
  const auto set = [&](int level, int option, int value) {
    return setsockopt(fd, level, option, &value, sizeof(value)) == 0;
  };
  if (!set(SOL_PACKET, PACKET_VNET_HDR, 1)) Fail("PACKET_VNET_HDR");
  if (!set(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)) Fail("PACKET_IGNORE_OUTGOING");
  set(SOL_SOCKET, SO_RCVBUFFORCE, 16 << 20);
  set(SOL_SOCKET, SO_SNDBUFFORCE, 16 << 20);
  sockaddr_ll address = {};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(if_nametoindex(name));
  if (address.sll_ifindex == 0) Fail(name);
  if (bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0) Fail("bind");
  packet_mreq all = {};
  all.mr_ifindex = address.sll_ifindex;
  all.mr_type = PACKET_MR_PROMISC;
  if (setsockopt(fd, SOL_PACKET, PACKET_ADD_MEMBERSHIP, &all, sizeof(all)) != 0) Fail("PACKET_MR_PROMISC");
  return fd;
}

void SendDue(Direction& direction) {
  const Clock::time_point now = Clock::now();
  while (!direction.frames.empty() && direction.frames.front().due <= now) {
    Frame& frame = direction.frames.front();
    const ssize_t sent = send(direction.out, frame.bytes.data(), frame.bytes.size(), 0);
    if (sent < 0 && (errno == EAGAIN || errno == ENOBUFS)) {
      frame.due = now + kRetry;
      return;
    }
    direction.queued -= frame.bytes.size();
    direction.frames.pop_front();
  }
}

void Receive(Direction& direction, const Impairment& impairment, std::mt19937_64& random) {
  static std::vector<char> buffer(size_t{1} << 18);
  std::uniform_real_distribution<double> share(0.0, 1.0);
  for (int i = 0; i < 64; ++i) {
    const ssize_t count = recv(direction.in, buffer.data(), buffer.size(), 0);
    if (count < 0) {
      if (errno == EAGAIN || errno == EINTR || errno == ENETDOWN) return;
      Fail("recv");
    }
    if (100 * share(random) < impairment.loss_percent || direction.queued > kMostQueued) continue;
    const double held_ms = impairment.delay_ms + impairment.jitter_ms * (2 * share(random) - 1);
    Clock::time_point due =
        Clock::now() + std::chrono::microseconds(static_cast<int64_t>(std::max(0.0, held_ms) * 1000));
    if (!direction.frames.empty()) due = std::max(due, direction.frames.back().due);
    direction.frames.push_back({due, {buffer.begin(), buffer.begin() + count}});
    direction.queued += static_cast<size_t>(count);
  }
}

// Wakes poll when the next frame is due, or never.
void SetTimer(int timer, const std::vector<Direction>& directions) {
  Clock::time_point next = Clock::time_point::max();
  for (const Direction& direction : directions) {
    if (!direction.frames.empty()) next = std::min(next, direction.frames.front().due);
  }
  itimerspec spec = {};
  if (next != Clock::time_point::max()) {
    const auto since = std::chrono::duration_cast<std::chrono::nanoseconds>(next.time_since_epoch()).count();
    spec.it_value = {.tv_sec = since / 1'000'000'000, .tv_nsec = since % 1'000'000'000};
  }
  timerfd_settime(timer, TFD_TIMER_ABSTIME, &spec, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) {
    std::fputs("usage: link_impair LINK_A LINK_B DELAY_MS JITTER_MS LOSS_PERCENT [SEED]\n", stderr);
    return 2;
  }
  const Impairment impairment = {std::stod(argv[3]), std::stod(argv[4]), std::stod(argv[5])};
  std::mt19937_64 random(argc > 6 ? std::stoull(argv[6]) : 1);
  const int a = OpenLink(argv[1]), b = OpenLink(argv[2]);
  std::vector<Direction> directions = {{.in = a, .out = b}, {.in = b, .out = a}};
  const int timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  for (;;) {
    for (Direction& direction : directions) SendDue(direction);
    SetTimer(timer, directions);
    pollfd waits[] = {{a, POLLIN, 0}, {b, POLLIN, 0}, {timer, POLLIN, 0}};
    if (poll(waits, 3, -1) < 0 && errno != EINTR) Fail("poll");
    uint64_t expired = 0;
    if (read(timer, &expired, sizeof(expired)) < 0 && errno != EAGAIN) Fail("timerfd");
    for (Direction& direction : directions) Receive(direction, impairment, random);
  }
}
