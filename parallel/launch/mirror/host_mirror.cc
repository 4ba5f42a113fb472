#include "parallel/launch/mirror/host_mirror.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/atomic_file.h"
#include "base/cache_folder.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"
#include "base/monotonic_clock.h"
#include "base/strings.h"
#include "base/xxh3_stream.h"
#include "parallel/launch/mirror/mirror_messages.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kMarker[] = ".mirror-of";  // says whose mirror the folder is
// For an agent that was here before, whose ranks are ending.
constexpr absl::Duration kForLock = absl::Seconds(20);
constexpr absl::Duration kPoll = absl::Milliseconds(100);

std::string OwnerOf(const fs::path& folder) {
  std::string owner;
  std::ifstream file(folder / kMarker);
  std::getline(file, owner);
  return owner;
}

// Nothing in it but what says whose it is, or that somebody is about to.
absl::StatusOr<bool> IsFree(const fs::path& folder, const MirrorOrder& order) {
  const std::string owner = OwnerOf(folder);
  if (!owner.empty()) return owner == order.identity;
  FTUNE_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, ListFolder(folder));
  return std::all_of(entries.begin(), entries.end(),
                     [&](const fs::path& entry) { return entry.filename() == order.lock; });
}

absl::Status NotFree(const fs::path& folder) {
  return UsageError(
      {.file = folder.string(),
       .key = "output_dir",
       .message = "there is something else in this folder, and the first rank needs one of its own",
       .hint = "choose another output_dir"});
}

}  // namespace

Json Encode(const MirrorOrder& order) {
  return {{"folder", order.folder},     {"identity", order.identity},
          {"lock", order.lock},         {"parts", Encode(order.parts)},
          {"begins", order.begins},     {"log_size", order.log.size},
          {"log_hash", order.log.hash}, {"own", order.own}};
}

MirrorOrder DecodeMirrorOrder(const Json& json) {
  return {.folder = json.at("folder").get<std::string>(),
          .identity = json.at("identity").get<std::string>(),
          .lock = json.at("lock").get<std::string>(),
          .parts = DecodeMirrorParts(json.at("parts")),
          .begins = json.at("begins").get<bool>(),
          .log = {.size = json.at("log_size").get<int64_t>(), .hash = json.at("log_hash").get<uint64_t>()},
          .own = json.at("own").get<std::string>()};
}

HostMirror::HostMirror(fs::path folder, Descriptor lock, const MirrorOrder& order, Send send)
    : folder_(std::move(folder)), lock_(std::move(lock)), order_(order), send_(std::move(send)) {
  receiver_ = std::make_unique<MirrorReceiver>(MirrorReceiver::Options{
      .folder = folder_, .parts = order_.parts, .clear = [this] { return RemoveParts(); }, .send = send_});
}

absl::StatusOr<std::unique_ptr<HostMirror>> HostMirror::Open(const MirrorOrder& order, const Send& send) {
  absl::StatusOr<std::unique_ptr<HostMirror>> mirror = Claim(order.folder, order, send);
  const fs::path cache = CacheFolder(ProcessEnvironment());
  if (!mirror.ok() && !cache.empty()) {
    const std::string name = absl::StrFormat("%016x", Xxh3Of(order.identity));
    absl::StatusOr<std::unique_ptr<HostMirror>> other = Claim(cache / "runs" / name, order, send);
    if (other.ok()) mirror = std::move(other);
  }
  FTUNE_RETURN_IF_ERROR(mirror.status());
  FTUNE_RETURN_IF_ERROR((*mirror)->RemoveLeftOvers());
  if (order.begins) FTUNE_RETURN_IF_ERROR((*mirror)->RemoveParts());
  return mirror;
}

absl::StatusOr<std::unique_ptr<HostMirror>> HostMirror::Claim(const fs::path& folder,
                                                              const MirrorOrder& order, const Send& send) {
  FTUNE_RETURN_IF_ERROR(MakeFolder(folder));
  FTUNE_ASSIGN_OR_RETURN(bool is_free, IsFree(folder, order));
  if (!is_free) return NotFree(folder);
  const fs::path path = folder / order.lock;
  Descriptor lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  if (!lock) return IoError(path, "open", errno);
  const absl::Duration until = MonotonicNow() + kForLock;
  while (flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (MonotonicNow() >= until) {
      return UsageError({.file = folder.string(),
                         .key = "output_dir",
                         .message = "another ftune is writing to this run",
                         .hint = "wait for it, or choose another output_dir"});
    }
    absl::SleepFor(kPoll);
  }
  FTUNE_ASSIGN_OR_RETURN(is_free, IsFree(folder, order));
  if (!is_free) return NotFree(folder);
  FTUNE_RETURN_IF_ERROR(WriteFileAtomic(folder / kMarker, StrCat(order.identity, "\n")));
  return std::unique_ptr<HostMirror>(new HostMirror(folder, std::move(lock), order, send));
}

absl::StatusOr<Json> HostMirror::Facts() const {
  FTUNE_ASSIGN_OR_RETURN(const MirrorInventory inventory, TakeInventory(folder_, order_.parts));
  const fs::path log = folder_ / order_.parts.appended.front();
  FTUNE_ASSIGN_OR_RETURN(const AppendedFile all, LookAtLines(log, order_.own));
  FTUNE_ASSIGN_OR_RETURN(const AppendedFile start, LookAtLines(log, order_.own, order_.log.size));
  const bool continues = order_.log.size > 0 && start == order_.log;
  return Json{{"folder", folder_.string()},
              {"inventory", Encode(inventory)},
              {"continues", continues},
              {"same_log", continues && all == start}};
}

void HostMirror::Take(const Frame& frame) {
  if (frame.kind == mirror::kDo) receiver_->Take(frame);
  if (frame.kind == mirror::kDone && sender_) sender_->Take(frame);
}

absl::Status HostMirror::StartSending() {
  FTUNE_ASSIGN_OR_RETURN(MirrorInventory same, TakeInventory(folder_, order_.parts));
  sender_ = std::make_unique<MirrorSender>(MirrorSender::Options{.folder = folder_,
                                                                 .parts = order_.parts,
                                                                 .there = std::move(same),
                                                                 .begins = order_.begins,
                                                                 .send = send_});
  return absl::OkStatus();
}

void HostMirror::StartSending(MirrorInventory there) {
  sender_ = std::make_unique<MirrorSender>(MirrorSender::Options{
      .folder = folder_, .parts = order_.parts, .there = std::move(there), .removes = false, .send = send_});
}

void HostMirror::Finish() { sender_->Finish(); }

void HostMirror::Request(const std::string& name) {
  if (!StaysInside(name)) return;
  requests_.insert(name);
  PassRequests();
}

void HostMirror::PassRequests() {
  std::erase_if(requests_,
                [this](const std::string& name) { return WriteFileAtomic(folder_ / name, "").ok(); });
}

absl::Status HostMirror::RemoveParts() const {
  FTUNE_ASSIGN_OR_RETURN(const auto units, LookAtUnits(folder_, order_.parts));
  FTUNE_ASSIGN_OR_RETURN(const auto appended, AppendedNames(folder_, order_.parts));
  for (const auto& [name, unit] : units) FTUNE_RETURN_IF_ERROR(RemoveFolder(folder_ / name));
  for (const std::string& name : appended) FTUNE_RETURN_IF_ERROR(RemoveFolder(folder_ / name));
  return absl::OkStatus();
}

// What was being written or removed when somebody was killed.
absl::Status HostMirror::RemoveLeftOvers() const {
  std::vector<fs::path> folders = {folder_};
  for (const std::string& collection : order_.parts.collections) folders.push_back(folder_ / collection);
  for (const fs::path& folder : folders) {
    if (!Exists(folder)) continue;
    FTUNE_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, ListFolder(folder));
    for (const fs::path& entry : entries) {
      const std::string name = entry.filename().string();
      if (name.starts_with('.') && name != kMarker) FTUNE_RETURN_IF_ERROR(RemoveFolder(entry));
    }
  }
  return absl::OkStatus();
}

absl::Status HostMirror::Remove() {
  sender_.reset();
  FTUNE_RETURN_IF_ERROR(RemoveLeftOvers());
  FTUNE_RETURN_IF_ERROR(RemoveParts());
  std::vector<fs::path> rest;  // folders that may be empty now
  for (const std::vector<std::string>* names : {&order_.parts.appended, &order_.parts.whole}) {
    for (const std::string& name : *names) rest.push_back((folder_ / name).parent_path());
  }
  for (const std::vector<std::string>* names : {&order_.parts.growing, &order_.parts.collections}) {
    for (const std::string& name : *names) rest.push_back(folder_ / name);
  }
  std::error_code not_empty;
  for (const fs::path& folder : rest) {
    if (folder != folder_) fs::remove(folder, not_empty);
  }
  fs::remove(folder_ / kMarker, not_empty);
  fs::remove(folder_ / order_.lock, not_empty);
  fs::remove(folder_, not_empty);
  return absl::OkStatus();
}

}  // namespace ftune
