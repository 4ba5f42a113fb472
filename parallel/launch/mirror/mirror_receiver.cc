#include "parallel/launch/mirror/mirror_receiver.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"
#include "base/quiet_thread.h"
#include "base/strings.h"
#include "parallel/comm/status_text.h"
#include "parallel/launch/mirror/mirror_messages.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

// Names that a run knows as those of what was not finished, and removes.
constexpr char kIncomplete[] = ".incomplete-mirror";
constexpr char kRemoving[] = ".removing-mirror";

// An error number where it cannot be.
int WriteAt(int fd, int64_t at, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = pwrite(fd, bytes.data(), bytes.size(), at);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return errno;
    bytes.remove_prefix(static_cast<size_t>(count));
    at += count;
  }
  return 0;
}

absl::Status OtherVersion(const std::string& what) {
  return UserError(ExitCode::kRankFailed,
                   {.message = StrCat("what is to be written to a run's folder is not understood: ", what),
                    .hint = "have the same version of ftune on all hosts"});
}

// Gives a file the time of the original, and makes it durable.
absl::Status FinishFile(const fs::path& path, const UnitFile& file) {
  const Descriptor fd(open(path.c_str(), O_WRONLY | O_CLOEXEC));
  struct stat found = {};
  if (!fd || fstat(fd.get(), &found) != 0) return IoError(path, "open", errno);
  if (found.st_size != file.size) {
    return DataError({.file = path.string(),
                      .found = StrCat(found.st_size, " bytes"),
                      .expected = StrCat(file.size, ", which were sent")});
  }
  const timespec modified = {.tv_sec = file.modified / kNanoseconds, .tv_nsec = file.modified % kNanoseconds};
  const timespec times[] = {modified, modified};
  if (futimens(fd.get(), times) != 0) return IoError(path, "set the time of", errno);
  return fsync(fd.get()) == 0 ? absl::OkStatus() : IoError(path, "flush", errno);
}

}  // namespace

MirrorReceiver::MirrorReceiver(Options options) : options_(std::move(options)) {
  thread_ = QuietThread([this] { Run(); });
}

MirrorReceiver::~MirrorReceiver() {
  {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    came_.notify_all();
  }
  thread_.join();
  Abandon();
}

void MirrorReceiver::Take(Frame frame) {
  const std::lock_guard lock(mutex_);
  frames_.push_back(std::move(frame));
  came_.notify_all();
}

absl::Status MirrorReceiver::status() const {
  const std::lock_guard lock(mutex_);
  return failures_.empty() ? absl::OkStatus() : failures_.begin()->second;
}

std::vector<absl::Status> MirrorReceiver::TakeFailures() {
  const std::lock_guard lock(mutex_);
  return std::exchange(new_failures_, {});
}

void MirrorReceiver::Run() {
  while (true) {
    Frame frame;
    {
      std::unique_lock lock(mutex_);
      came_.wait(lock, [this] { return stopped_ || !frames_.empty(); });
      if (stopped_) return;
      frame = std::move(frames_.front());
      frames_.pop_front();
    }
    std::string unit;
    absl::Status done;
    try {
      done = Do(frame, unit);
    } catch (const Json::exception& error) {
      done = OtherVersion(error.what());
    }
    Json answer = Json::object();
    if (!done.ok()) {
      answer = {{"failed", unit}, {"error", EncodeStatus(done)}, {"has", appended_[unit]}};
      if (unit == unit_) Abandon();
    }
    Note(unit, done);
    options_.send({.kind = mirror::kDone, .facts = std::move(answer)});
  }
}

void MirrorReceiver::Note(const std::string& unit, const absl::Status& done) {
  const std::lock_guard lock(mutex_);
  if (done.ok()) return;
  const bool known = failures_.contains(unit);
  failures_[unit] = done;
  if (!known) new_failures_.push_back(done);
}

absl::Status MirrorReceiver::Do(const Frame& frame, std::string& unit) {
  const std::string op = frame.facts.at("op").get<std::string>();
  unit = frame.facts.value("unit", unit_);
  const bool is_appended = IsAppended(options_.parts, unit);
  if (op == mirror::kClear) return options_.clear();
  if (op == mirror::kData) return unit_.empty() ? absl::OkStatus() : AddData(frame);
  if (op == mirror::kAppend && is_appended) return Append(frame, unit);
  if (op == mirror::kRemove && is_appended) return Remove(unit);
  if (!IsUnit(options_.parts, unit)) return OtherVersion(StrCat(op, " ", unit));
  if (op == mirror::kRemove) return Remove(unit);
  if (op == mirror::kBegin) return Begin(unit);
  if (op == mirror::kDrop) {
    Abandon();
    return absl::OkStatus();
  }
  if (op != mirror::kCommit) return OtherVersion(op);
  return unit == unit_ ? Commit(DecodeUnit(frame.facts.at("files"))) : absl::OkStatus();
}

fs::path MirrorReceiver::Incomplete(const std::string& unit) const {
  const fs::path parent = fs::path(unit).parent_path();
  for (const std::string& collection : options_.parts.collections) {
    if (parent == collection) return options_.folder / parent / kIncomplete;
  }
  return options_.folder / kIncomplete;
}

absl::Status MirrorReceiver::Begin(const std::string& unit) {
  Abandon();
  unit_ = unit;
  incomplete_ = Incomplete(unit);
  FTUNE_RETURN_IF_ERROR(RemoveFolder(incomplete_));
  return MakeFolder((options_.folder / unit).parent_path());
}

absl::Status MirrorReceiver::AddData(const Frame& frame) {
  const std::string name = frame.facts.at("file").get<std::string>();
  if (!StaysInside(name)) return OtherVersion(name);
  const fs::path path = name.empty() ? incomplete_ : incomplete_ / name;
  if (!file_ || name != file_name_) {
    FTUNE_RETURN_IF_ERROR(MakeFolder(path.parent_path()));
    file_ = Descriptor(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644));
    if (!file_) return IoError(path, "open", errno);
    file_name_ = name;
  }
  const int error = WriteAt(file_.get(), frame.facts.at("at").get<int64_t>(), frame.bytes);
  return error == 0 ? absl::OkStatus() : IoError(options_.folder / unit_ / name, "write", error);
}

absl::Status MirrorReceiver::Commit(const Unit& files) {
  file_ = Descriptor();
  std::set<fs::path> folders;
  for (const UnitFile& file : files) {
    if (!StaysInside(file.path)) return OtherVersion(file.path);
    FTUNE_RETURN_IF_ERROR(FinishFile(file.path.empty() ? incomplete_ : incomplete_ / file.path, file));
    if (!file.path.empty()) folders.insert((incomplete_ / file.path).parent_path());
  }
  for (const fs::path& folder : folders) FTUNE_RETURN_IF_ERROR(SyncFolder(folder));
  FTUNE_RETURN_IF_ERROR(ReplaceFolder(incomplete_, options_.folder / unit_));
  const std::lock_guard lock(mutex_);
  failures_.erase(std::exchange(unit_, ""));
  return absl::OkStatus();
}

absl::Status MirrorReceiver::Remove(const std::string& unit) {
  {
    const std::lock_guard lock(mutex_);
    failures_.erase(unit);
  }
  const fs::path path = options_.folder / unit;
  if (!Exists(path)) return absl::OkStatus();
  // No part of it can be taken for the whole.
  const fs::path removing = path.parent_path() / kRemoving;
  FTUNE_RETURN_IF_ERROR(RemoveFolder(removing));
  if (rename(path.c_str(), removing.c_str()) != 0) return IoError(path, "remove", errno);
  return RemoveFolder(removing);
}

absl::Status MirrorReceiver::Append(const Frame& frame, const std::string& name) {
  const fs::path path = options_.folder / name;
  const int64_t at = frame.facts.at("at").get<int64_t>();
  const bool anew = frame.facts.at("anew").get<bool>();
  const auto [has, is_first] = appended_.emplace(name, at);
  if (anew) has->second = 0;
  // What comes after something that could not be written comes again.
  if (at != has->second) return absl::OkStatus();
  FTUNE_RETURN_IF_ERROR(MakeFolder(path.parent_path()));
  const int how = O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | (anew ? O_TRUNC : 0);
  const Descriptor file(open(path.c_str(), how, 0644));
  if (!file) return IoError(path, "open", errno);
  // Others may append to it too: whole pieces stand one after another, and none in part.
  const ssize_t count = write(file.get(), frame.bytes.data(), frame.bytes.size());
  if (count != std::ssize(frame.bytes)) {
    const int error = count < 0 ? errno : ENOSPC;
    struct stat now = {};
    if (count > 0 && fstat(file.get(), &now) == 0) {
      [[maybe_unused]] const int cut = ftruncate(file.get(), now.st_size - count);
    }
    return IoError(path, "write", error);
  }
  has->second += count;
  const std::lock_guard lock(mutex_);
  failures_.erase(name);
  return absl::OkStatus();
}

void MirrorReceiver::Abandon() {
  file_ = Descriptor();
  if (unit_.empty()) return;
  unit_.clear();
  // What cannot be removed is passed over by whoever looks, and removed when the run goes on.
  RemoveFolder(incomplete_).IgnoreError();
}

}  // namespace ftune
