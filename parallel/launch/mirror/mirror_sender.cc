#include "parallel/launch/mirror/mirror_sender.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"
#include "base/monotonic_clock.h"
#include "base/quiet_thread.h"
#include "parallel/comm/status_text.h"
#include "parallel/launch/mirror/mirror_messages.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr size_t kChunk = SendWindow::kLeast;
constexpr absl::Duration kInterval = absl::Milliseconds(250);  // between two looks
constexpr absl::Duration kUntilRetry = absl::Seconds(20);

// Fewer than asked for only at the file's end; an error number where it cannot be read.
int ReadAt(int fd, int64_t at, std::string& bytes) {
  size_t have = 0;
  while (have < bytes.size()) {
    const ssize_t count =
        pread(fd, bytes.data() + have, bytes.size() - have, at + static_cast<int64_t>(have));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    if (count == 0) break;
    have += static_cast<size_t>(count);
  }
  bytes.resize(have);
  return 0;
}

}  // namespace

MirrorSender::MirrorSender(Options options) : options_(std::move(options)) {
  thread_ = QuietThread([this] { Run(); });
}

MirrorSender::~MirrorSender() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    changed_.notify_all();
  }
  window_.Close();
  thread_.join();
}

void MirrorSender::Take(const Frame& frame) {
  const std::string failed = frame.facts.value("failed", std::string());
  if (!failed.empty()) {
    const std::lock_guard lock(mutex_);
    failures_[failed] = frame.facts.value("has", int64_t{0});
    status_ = DecodeStatus(frame.facts.value("error", std::string()));
  }
  window_.Leave();
}

void MirrorSender::Finish() {
  const std::lock_guard lock(mutex_);
  finishing_ = true;
  changed_.notify_all();
}

bool MirrorSender::finished() const {
  const std::lock_guard lock(mutex_);
  return finished_;
}

absl::Status MirrorSender::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

bool MirrorSender::stopped() const {
  const std::lock_guard lock(mutex_);
  return stopped_;
}

void MirrorSender::Run() {
  while (!stopped()) {
    {
      const std::lock_guard lock(mutex_);
      last_ = finishing_;
      if (last_) status_ = absl::OkStatus();
    }
    const absl::Status looked = Look();
    if (last_ && !window_.AwaitEmpty()) return;
    std::unique_lock lock(mutex_);
    if (last_) {
      status_.Update(looked);
      finished_ = true;
      return;
    }
    changed_.wait_for(lock, absl::ToChronoMilliseconds(kInterval), [this] { return stopped_ || finishing_; });
  }
}

absl::Status MirrorSender::Look() {
  TakeFailures();
  if (options_.begins) {
    if (!Exists(options_.folder / options_.parts.appended.front())) return absl::OkStatus();
    options_.begins = false;
    options_.there = {};
    Send({{"op", mirror::kClear}});
  }
  if (!options_.appended_last) FTUNE_RETURN_IF_ERROR(SendAppended());
  using Units = std::map<std::string, Unit>;
  FTUNE_ASSIGN_OR_RETURN(const Units units, LookAtUnits(options_.folder, options_.parts));
  std::vector<std::string> gone;
  for (const auto& [name, unit] : options_.there.units) {
    if (options_.removes && !units.contains(name)) gone.push_back(name);
  }
  // Nor is it missed there any more that something which has gone could not be written.
  for (const auto& [name, when] : try_again_) {
    if (!units.contains(name) && !appended_.contains(name)) gone.push_back(name);
  }
  for (const std::string& name : gone) Remove(name);
  std::vector<std::string> names = options_.parts.announced;
  for (const auto& [name, unit] : units) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  for (const std::string& name : names) {
    const auto unit = units.find(name);
    if (unit == units.end() || Waits(name) || stopped()) continue;
    const auto other = options_.there.units.find(name);
    if (other == options_.there.units.end() || other->second != unit->second) {
      FTUNE_RETURN_IF_ERROR(SendUnit(name, unit->second));
    }
  }
  return SendAppended();
}

void MirrorSender::Remove(const std::string& name) {
  Send({{"op", mirror::kRemove}, {"unit", name}});
  options_.there.units.erase(name);
  try_again_.erase(name);
}

absl::Status MirrorSender::SendUnit(const std::string& name, const Unit& unit) {
  refused_ = false;
  try_again_.erase(name);
  Send({{"op", mirror::kBegin}, {"unit", name}});
  bool whole = true;
  const absl::Status sent = SendFiles(name, unit, whole);
  if (sent.ok() && whole && !refused_) {
    // It may have been replaced meanwhile.
    FTUNE_ASSIGN_OR_RETURN(const Unit now, LookAtUnit(options_.folder / name));
    whole = now == unit;
  }
  if (!sent.ok() || !whole || refused_) {
    Send({{"op", mirror::kDrop}, {"unit", name}});
    return sent;
  }
  Send({{"op", mirror::kCommit}, {"unit", name}, {"files", Encode(unit)}});
  options_.there.units[name] = unit;
  return absl::OkStatus();
}

absl::Status MirrorSender::SendFiles(const std::string& name, const Unit& unit, bool& whole) {
  for (const UnitFile& file : unit) {
    const fs::path path = file.path.empty() ? options_.folder / name : options_.folder / name / file.path;
    const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    whole = static_cast<bool>(fd);
    if (!fd) return errno == ENOENT ? absl::OkStatus() : IoError(path, "open", errno);
    int64_t at = 0;
    do {
      std::string bytes(std::min<size_t>(kChunk, static_cast<size_t>(file.size - at)), '\0');
      const size_t wanted = bytes.size();
      if (const int error = ReadAt(fd.get(), at, bytes)) return IoError(path, "read", error);
      whole = bytes.size() == wanted;
      if (!whole) return absl::OkStatus();
      Send({{"op", mirror::kData}, {"file", file.path}, {"at", at}}, std::move(bytes));
      at += static_cast<int64_t>(wanted);
      TakeFailures();
      refused_ = refused_ || try_again_.contains(name);
      if (refused_ || stopped()) return absl::OkStatus();
      // A large unit does not hold up the log.
      const bool is_due = !options_.appended_last && MonotonicNow() - appended_at_ > kInterval;
      if (is_due) FTUNE_RETURN_IF_ERROR(SendAppended());
    } while (at < file.size);
  }
  return absl::OkStatus();
}

absl::StatusOr<bool> MirrorSender::HasAnnounced() const {
  for (const std::string& name : options_.parts.announced) {
    FTUNE_ASSIGN_OR_RETURN(const Unit unit, LookAtUnit(options_.folder / name));
    const auto other = options_.there.units.find(name);
    if (unit != (other == options_.there.units.end() ? Unit() : other->second)) return false;
  }
  return true;
}

absl::Status MirrorSender::SendAppended() {
  appended_at_ = MonotonicNow();
  // What is told now is of what was there before.
  FTUNE_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         AppendedNames(options_.folder, options_.parts));
  std::map<std::string, int64_t> sizes;
  for (const std::string& name : names) {
    std::error_code none;
    const auto size = fs::file_size(options_.folder / name, none);
    if (!none) sizes[name] = static_cast<int64_t>(size);
  }
  FTUNE_ASSIGN_OR_RETURN(const bool has_announced, HasAnnounced());
  if (!has_announced) return absl::OkStatus();
  for (const auto& [name, size] : sizes) {
    if (!Waits(name)) FTUNE_RETURN_IF_ERROR(SendGrown(name, size));
  }
  if (!options_.removes) return absl::OkStatus();
  std::vector<std::string> gone;
  for (const auto& [name, file] : options_.there.appended) {
    if (!sizes.contains(name)) gone.push_back(name);
  }
  for (const std::string& name : gone) {
    Send({{"op", mirror::kRemove}, {"unit", name}});
    options_.there.appended.erase(name);
    appended_.erase(name);
  }
  return absl::OkStatus();
}

absl::Status MirrorSender::SendGrown(const std::string& name, int64_t size) {
  const fs::path path = options_.folder / name;
  const Descriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return errno == ENOENT ? absl::OkStatus() : IoError(path, "open", errno);
  struct stat file = {};
  if (fstat(fd.get(), &file) != 0) return IoError(path, "look at", errno);
  Appended& state = appended_[name];
  bool anew = state.known && (state.file != file.st_ino || file.st_size < state.sent);
  if (!std::exchange(state.known, true)) {
    const auto other = options_.there.appended.find(name);
    anew = other == options_.there.appended.end() || file.st_size < other->second.size;
    if (!anew) {
      FTUNE_ASSIGN_OR_RETURN(const uint64_t hash, HashOfStart(path, other->second.size));
      anew = hash != other->second.hash;
      state.sent = other->second.size;
    }
  }
  state.file = file.st_ino;
  if (anew) state.sent = 0;
  // Of a file of lines nothing waits for an end that will not come.
  const std::vector<std::string>& of_lines = options_.parts.appended;
  const bool by_lines = !last_ && std::find(of_lines.begin(), of_lines.end(), name) != of_lines.end();
  while (anew || state.sent < size) {
    std::string bytes(std::min<size_t>(kChunk, static_cast<size_t>(size - state.sent)), '\0');
    const bool more = bytes.size() == kChunk;
    if (const int error = ReadAt(fd.get(), state.sent, bytes)) return IoError(path, "read", error);
    // A line that is begun goes when it has ended; one that is very long goes in pieces.
    const size_t lines = bytes.rfind('\n') + 1;  // 0 where there is none
    if (by_lines && (lines > 0 || !more)) bytes.resize(lines);
    if (bytes.empty() && !anew) return absl::OkStatus();
    const auto count = static_cast<int64_t>(bytes.size());
    Send({{"op", mirror::kAppend}, {"unit", name}, {"at", state.sent}, {"anew", anew}}, std::move(bytes));
    state.sent += count;
    anew = false;
  }
  options_.there.appended[name].size = state.sent;
  return absl::OkStatus();
}

void MirrorSender::Send(Json facts, std::string bytes) {
  if (!window_.Enter(bytes.size())) return;
  options_.send({.kind = mirror::kDo, .facts = std::move(facts), .bytes = std::move(bytes)});
}

void MirrorSender::TakeFailures() {
  const std::lock_guard lock(mutex_);
  for (const auto& [name, has] : failures_) {
    options_.there.units.erase(name);
    if (appended_.contains(name)) appended_[name].sent = has;
    try_again_[name] = MonotonicNow() + kUntilRetry;
  }
  failures_.clear();
}

bool MirrorSender::Waits(const std::string& name) const {
  const auto when = try_again_.find(name);
  return when != try_again_.end() && !last_ && MonotonicNow() < when->second;
}

}  // namespace ftune
