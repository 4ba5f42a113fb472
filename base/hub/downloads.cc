#include "base/hub/downloads.h"

#include <sys/statvfs.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/folder.h"
#include "base/http/backoff.h"
#include "base/hub/blob_writer.h"
#include "base/hub/file_lock.h"
#include "base/strings.h"

namespace ftune {
namespace {

using std::chrono::milliseconds;

constexpr size_t kAtOnce = 4;
constexpr milliseconds kReportEvery(200);
constexpr int kTriesOfContent = 2;  // a file whose content is wrong is fetched once more

// Files of the same content together, the largest first: what comes last is short.
std::vector<std::vector<RepoFile>> ByContent(std::vector<RepoFile> files) {
  std::stable_sort(files.begin(), files.end(), [](const RepoFile& a, const RepoFile& b) {
    return a.size != b.size ? a.size > b.size : a.etag() < b.etag();
  });
  std::vector<std::vector<RepoFile>> groups;
  for (RepoFile& file : files) {
    if (groups.empty() || groups.back().front().etag() != file.etag()) groups.emplace_back();
    groups.back().push_back(std::move(file));
  }
  return groups;
}

// Whether a 206 begins where the writer stands: "bytes 100-199/200".
bool BeginsAt(const HttpHead& head, int64_t offset) {
  return head.Header("content-range").starts_with(StrCat("bytes ", offset, "-"));
}

}  // namespace

Downloads::Downloads(Network& network, const HubSettings& settings, const DownloadJob& job,
                     const HubReporter& reporter)
    : network_(network),
      settings_(settings),
      job_(job),
      reporter_(reporter),
      contents_(ByContent(job.files)),
      cache_(settings.cache, job.repo) {}

absl::Status Downloads::Run() {
  FTUNE_RETURN_IF_ERROR(MakeFolder(cache_.root() / "blobs"));
  FTUNE_RETURN_IF_ERROR(CheckSpace());
  std::vector<std::thread> threads;
  working_ = static_cast<int>(std::min(kAtOnce, contents_.size()));
  for (int i = working_; i > 0; --i) threads.emplace_back([this] { Work(); });
  std::unique_lock lock(mutex_);
  bool done = false;
  while (!done) {
    done = changed_.wait_for(lock, kReportEvery, [this] { return working_ == 0; });
    const std::vector<std::string> messages = std::exchange(messages_, {});
    lock.unlock();
    for (const std::string& message : messages) {
      if (reporter_.say) reporter_.say(message);
    }
    if (!done) Report(false);
    lock.lock();
  }
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  if (error_.ok()) Report(true);
  return error_;
}

void Downloads::Report(bool finished) const {
  if (!reporter_.transfer) return;
  Transfer transfer{.repo = job_.repo.id,
                    .files = static_cast<int64_t>(job_.files.size()),
                    .bytes = bytes_,
                    .resumed = resumed_,
                    .finished = finished};
  for (const std::vector<RepoFile>& files : contents_) transfer.total += files.front().size;
  transfer.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  reporter_.transfer(transfer);
}

absl::Status Downloads::CheckSpace() const {
  int64_t needed = 0;
  for (const std::vector<RepoFile>& files : contents_) {
    const RepoFile& file = files.front();
    if (cache_.HasBlob(file)) continue;
    std::error_code error;
    const uintmax_t here = std::filesystem::file_size(cache_.Incomplete(file), error);
    needed += std::max<int64_t>(0, file.size - (error ? 0 : static_cast<int64_t>(here)));
  }
  struct statvfs disk;
  if (statvfs(cache_.root().c_str(), &disk) != 0) return absl::OkStatus();
  const uint64_t free = uint64_t{disk.f_bavail} * disk.f_frsize;
  if (static_cast<uint64_t>(needed) <= free) return absl::OkStatus();
  return DataError({.file = settings_.cache.string(),
                    .message = StrCat("there is not enough space for ", job_.repo.id),
                    .found = StrCat(free, " bytes"),
                    .expected = StrCat(needed, " bytes"),
                    .hint = "free some, or set HF_HUB_CACHE to a folder on another disk"});
}

void Downloads::Say(std::string message) {
  const std::lock_guard lock(mutex_);
  messages_.push_back(std::move(message));
}

bool Downloads::Wait(milliseconds duration) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, duration, [this] { return stop_.load(); });
}

void Downloads::Work() {
  HttpClient client(network_, HubClientOptions(settings_));
  absl::Status status;
  while (status.ok() && !stop_) {
    const size_t i = next_++;
    if (i >= contents_.size()) break;
    status = Download(client, contents_[i].front());
    for (const RepoFile& file : contents_[i]) {
      if (status.ok()) status = cache_.Link(job_.commit, file);
    }
  }
  const std::lock_guard lock(mutex_);
  if (!status.ok() && error_.ok()) error_ = status;
  if (!status.ok()) stop_ = true;
  --working_;
  changed_.notify_all();
}

absl::Status Downloads::Download(HttpClient& client, const RepoFile& file) {
  FTUNE_ASSIGN_OR_RETURN(const FileLock lock, FileLock::Take(cache_.Lock(file), [&] {
                           Say(StrCat(file.path, ": waiting for another download of it"));
                         }));
  if (cache_.HasBlob(file)) {
    bytes_ += file.size;
    resumed_ += file.size;
    return absl::OkStatus();
  }
  FTUNE_ASSIGN_OR_RETURN(BlobWriter writer, BlobWriter::Open(cache_.Incomplete(file), file, network_));
  bytes_ += writer.size();
  resumed_ += writer.size();
  for (int i = 0; i < kTriesOfContent; ++i) {
    FTUNE_RETURN_IF_ERROR(Receive(client, file, writer));
    if (writer.Verify()) return writer.Commit(cache_.Blob(file));
    bytes_ -= writer.size();
    FTUNE_RETURN_IF_ERROR(writer.Restart());
    Say(StrCat(file.path, ": what came is not what the hub announced; fetching it again"));
  }
  return DataError({.file = file.path,
                    .message = StrCat("the content that ", settings_.endpoint.host,
                                      " sends is not what it announces, twice in a row"),
                    .expected = StrCat(file.sha256.empty() ? "git SHA-1 " : "SHA-256 ", file.etag()),
                    .hint = "try again later; a proxy on the way may change it"});
}

absl::Status Downloads::Receive(HttpClient& client, const RepoFile& file, BlobWriter& writer) {
  HubApi api(client, settings_, job_.repo);
  const Url url = api.FileUrl(job_.commit, file.path);
  Backoff backoff;
  absl::Status failed;  // of writing here
  const auto restart = [&] {
    bytes_ -= writer.size();
    failed = writer.Restart();
    return failed.ok();
  };
  while (!writer.complete()) {
    const int64_t before = writer.size();
    bool takes = false;
    const HttpClient::Sink sink = {.head =
                                       [&](const HttpHead& head) {
                                         // A server that knows no ranges sends the whole file.
                                         if (head.status == 200)
                                           return takes = writer.size() == 0 || restart();
                                         return takes = head.status == 206 && BeginsAt(head, writer.size());
                                       },
                                   .body =
                                       [&](std::string_view bytes) {
                                         failed = writer.Append(bytes);
                                         if (failed.ok()) bytes_ += static_cast<int64_t>(bytes.size());
                                         return failed.ok() && !stop_;
                                       }};
    std::map<std::string, std::string> headers;
    if (before > 0) headers["Range"] = StrCat("bytes=", before, "-");
    FTUNE_ASSIGN_OR_RETURN(HttpAnswer answer, client.Get(url, headers, &sink));
    if (!failed.ok()) return failed;
    if (stop_) return absl::CancelledError();
    if (writer.complete()) break;
    if (writer.size() > before) backoff.Progress();
    if (answer.ok() && takes) {
      answer.failure = HttpFailure::kBroken;
      answer.problem = StrCat(answer.url.host, " sends less than the file has");
      answer.advice = "try again: what has been downloaded is kept";
    } else if (answer.ok() && before > 0 && (answer.head.status == 416 || answer.head.status == 206)) {
      if (!restart()) return failed;  // what is here is of no use to the server
      continue;
    }
    const absl::Status error = HubError(answer, settings_, job_.repo, job_.commit, file.path);
    const std::optional<milliseconds> wait = backoff.Next(answer);
    if (!wait) return error;
    Say(StrCat(file.path, ": ", DetailOf(error)->message, "; trying again"));
    if (!Wait(*wait)) return absl::CancelledError();
  }
  return absl::OkStatus();
}

}  // namespace ftune
