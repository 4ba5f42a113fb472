#include "cmd/report/screen.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/quiet_thread.h"
#include "base/strings.h"

namespace ftune {

Screen::Screen(int descriptor, std::string elsewhere)
    : descriptor_(descriptor), elsewhere_(std::move(elsewhere)) {
  thread_ = QuietThread([this] { Run(); });
}

Screen::~Screen() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Screen::Write(std::string_view text) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    if (waiting_.size() + text.size() > kMostWaiting) {
      left_out_ += std::count(text.begin(), text.end(), '\n');
      return;
    }
    SayLeftOut();
    waiting_ += text;
  }
  changed_.notify_all();
}

bool Screen::closed() const {
  const std::lock_guard lock(mutex_);
  return closed_;
}

void Screen::SayLeftOut() {
  if (left_out_ == 0) return;
  StrAppend(waiting_, "[", std::exchange(left_out_, 0), " lines are not shown: ", elsewhere_, "]\n");
}

void Screen::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    if (waiting_.empty()) SayLeftOut();  // the reader has come back
    changed_.wait(lock, [&] { return done_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const std::string text = std::exchange(waiting_, "");
    lock.unlock();
    const bool read = WriteAll(text);
    lock.lock();
    if (read) continue;
    closed_ = true;
    left_out_ = 0;
    waiting_.clear();
  }
}

bool Screen::WriteAll(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t count = write(descriptor_, text.data(), text.size());
    if (count > 0) {
      text.remove_prefix(static_cast<size_t>(count));
    } else if (errno == EAGAIN) {  // somebody who shares it has made it so
      pollfd wait = {.fd = descriptor_, .events = POLLOUT};
      poll(&wait, 1, -1);
    } else if (errno != EINTR) {
      return false;
    }
  }
  return true;
}

}  // namespace ftune
