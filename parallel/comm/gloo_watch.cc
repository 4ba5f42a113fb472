#include "parallel/comm/gloo_watch.h"

#include <algorithm>
#include <utility>

#include "absl/time/clock.h"
#include "base/error.h"
#include "base/quiet_thread.h"
#include "base/strings.h"
#include "parallel/comm/mismatch.h"
#include "parallel/comm/status_text.h"

namespace ftune {
namespace {

constexpr absl::Duration kLongestTick = absl::Seconds(5);
// For an answer: the way there and back may be long, and longer where a connection must be made again.
constexpr double kAnswerShare = 1.0 / 3;  // of the time-out
// For telling of a failure, and for hearing of one: the ranks are to end soon.
constexpr absl::Duration kShortly = absl::Milliseconds(500);
constexpr absl::Duration kToEnter = absl::Seconds(10);
constexpr absl::Duration kRetry = absl::Milliseconds(20);
// For ranks that end a little later than the one with the store.
constexpr absl::Duration kToLeave = absl::Seconds(2);

// What a rank says of itself: a letter and what follows it.
constexpr char kAlive = 'a';   // the number of the beat
constexpr char kLate = 't';    // what it waits for in vain
constexpr char kFailed = 'f';  // a status
constexpr char kLeft = 'l';

bool Says(const std::string& word, char what) { return !word.empty() && word[0] == what; }

std::optional<absl::Status> FailureIn(const std::string& word) {
  if (!Says(word, kFailed)) return std::nullopt;
  return HeardStatus(std::string_view(word).substr(1));
}

bool IsGone(const absl::Status& status) {
  return ExitCodeOf(status) == static_cast<int>(ExitCode::kRankFailed);
}

}  // namespace

GlooWatch::GlooWatch(GlooWatchOptions options)
    : options_(std::move(options)),
      tick_(std::min(options_.heartbeat_timeout / 5, kLongestTick)),
      patience_(std::clamp(kAnswerShare * options_.heartbeat_timeout, kShortly, kLongestTick)),
      peers_(options_.names.size()) {
  for (int rank = 0; rank < std::ssize(options_.names); ++rank) {
    keys_.push_back(StrCat(options_.prefix, "/word/", rank));
  }
}

void GlooWatch::Leave() {
  {
    const std::lock_guard lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  if (!hears_.joinable()) return;
  says_.join();
  hears_.join();
  // Without it the others would take the silence for that of a rank that is lost.
  if (failure_.empty()) {
    options_.store->Set(own_key(), std::string(1, kLeft), kShortly).IgnoreError();
  }
}

absl::Status GlooWatch::Enter() {
  FTUNE_RETURN_IF_ERROR(options_.store->Set(own_key(), std::string(1, kAlive)));
  // So all words are there for whoever is connected to all ranks.
  return options_.store->Get(own_key(), kToEnter).status();
}

void GlooWatch::Start(std::function<void(const absl::Status&)> failed) {
  says_ = QuietThread([this] { SayAlive(); });
  hears_ = QuietThread([this, failed = std::move(failed)] { Run(failed); });
}

bool GlooWatch::ending() {
  const std::lock_guard lock(mutex_);
  return leaving_ || !failure_.empty();
}

bool GlooWatch::Sleep(absl::Duration duration) {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, absl::ToChronoNanoseconds(duration),
                            [&] { return leaving_ || !failure_.empty(); });
}

void GlooWatch::SayAlive() {
  uint64_t count = 0;
  while (Sleep(tick_)) {
    options_.store->Set(own_key(), StrCat(std::string(1, kAlive), ++count), patience_).IgnoreError();
    const std::lock_guard lock(mutex_);
    // What was said meanwhile is not to be lost.
    const std::string& word = failure_.empty() ? report_ : failure_;
    if (!word.empty()) options_.store->Set(own_key(), word, kShortly).IgnoreError();
  }
}

void GlooWatch::Run(const std::function<void(const absl::Status&)>& failed) {
  absl::Time last = absl::Now();
  while (!store_gone_ && Sleep(std::min(tick_, kShortly))) {
    // A rank that failed or died, also while no call waits for it.
    if (const absl::Status trouble = options_.store->Trouble(patience_); !trouble.ok())
      return failed(trouble);
    if (ending()) return;
    const absl::Time now = absl::Now();
    if (now - last < tick_) {
      store_gone_ = IsGone(options_.store->GetAll({own_key()}, patience_).status());
      continue;
    }
    // Time in which this process was stopped itself does not count; that for which a store kept it waiting
    // does.
    const absl::Status status = Hear(std::min(now - last, 2 * (tick_ + kShortly)));
    last = now;
    if (!status.ok()) return failed(status);
  }
  if (store_gone_ && options_.first_serves) AwaitLeave(failed);
}

// gloo does not wake who waits for the rest of a message from a process that has died.
void GlooWatch::AwaitLeave(const std::function<void(const absl::Status&)>& failed) {
  {
    std::unique_lock lock(mutex_);
    const auto leaves = [&] { return leaving_ || !failure_.empty(); };
    if (changed_.wait_for(lock, absl::ToChronoNanoseconds(kToLeave), leaves)) return;
  }
  failed(LostRankError(options_.names[0], "it has ended"));
}

absl::Status GlooWatch::Hear(absl::Duration since) {
  absl::StatusOr<std::vector<std::string>> words = options_.store->GetAll(keys_, patience_);
  FTUNE_RETURN_IF_ERROR(Judge(words.status(), since));
  if (!words.ok()) return absl::OkStatus();
  for (int rank = 0; rank < std::ssize(peers_); ++rank) {
    Peer& peer = peers_[rank];
    std::string& word = (*words)[rank];
    if (rank == options_.rank || Says(peer.word, kLeft)) continue;
    if (std::optional<absl::Status> failure = FailureIn(word)) return *std::move(failure);
    peer.silent = word == peer.word ? peer.silent + since : absl::ZeroDuration();
    peer.word = std::move(word);
    if (peer.silent > options_.heartbeat_timeout) {
      return LostRankError(
          options_.names[rank],
          StrCat("nothing was heard of its process for ", absl::FormatDuration(options_.heartbeat_timeout),
                 ": it is stopped, or its host cannot be reached or is overloaded"));
    }
  }
  return absl::OkStatus();
}

absl::Status GlooWatch::Judge(const absl::Status& answer, absl::Duration since) {
  // Who served it has left, or has died, which its connections say.
  store_gone_ = IsGone(answer);
  store_silent_ = answer.ok() ? absl::ZeroDuration() : store_silent_ + since;
  if (store_gone_ || store_silent_ <= options_.heartbeat_timeout) return absl::OkStatus();
  return LostRankError(options_.names[0], StrCat("the store on its host has not answered for ",
                                                 absl::FormatDuration(options_.heartbeat_timeout),
                                                 ": it is stopped, or its host cannot be reached"));
}

void GlooWatch::Tell(const absl::Status& cause) {
  const std::string word = StrCat(std::string(1, kFailed), EncodeStatus(cause));
  {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = word;
  }
  changed_.notify_all();
  // Without it they see a closed connection, or nothing for a while.
  options_.store->Set(own_key(), word, kShortly).IgnoreError();
  options_.store->TellTrouble(cause);
}

GlooWatch::Words GlooWatch::HearAll(int first, absl::Time deadline) {
  const absl::StatusOr<std::vector<std::string>> said =
      options_.store->GetAll(keys_, std::max(deadline - absl::Now(), absl::ZeroDuration()));
  Words words = {.store_gone = IsGone(said.status()), .heard = said.ok()};
  for (int rank = 0; words.heard && rank < std::ssize(keys_); ++rank) {
    if (rank == options_.rank) continue;
    const std::string& word = (*said)[rank];
    if (!words.failure || rank == first) {
      if (std::optional<absl::Status> failure = FailureIn(word)) words.failure = std::move(failure);
    }
    if (!Says(word, kLate)) continue;
    if (std::optional<LateReport> late = LateReport::Decode(std::string_view(word).substr(1))) {
      words.late.push_back(*std::move(late));
    }
  }
  return words;
}

absl::Status GlooWatch::CauseOf(int peer, const LateReport& report) {
  const absl::Time deadline = absl::Now() + kShortly;
  bool heard = false;
  do {
    Words words = HearAll(peer, deadline);
    if (words.store_gone) return LostRankError(options_.names[0], "it has ended");
    if (words.failure) return *std::move(words.failure);
    if (!words.late.empty()) return Settle(report);
    FTUNE_RETURN_IF_ERROR(options_.store->Trouble(std::max(deadline - absl::Now(), absl::ZeroDuration())));
    heard = heard || words.heard;
    absl::SleepFor(kRetry);
  } while (absl::Now() < deadline);
  // The store is rank 0's, or its launcher's: without it the peer ended too.
  if (!heard) return LostRankError(options_.names[0], "the store on its host does not answer");
  return LostRankError(options_.names[peer], "its connection was closed");
}

absl::Status GlooWatch::Settle(const LateReport& report) {
  const std::string word = StrCat(std::string(1, kLate), report.Encode());
  {
    const std::lock_guard lock(mutex_);
    report_ = word;
  }
  options_.store->Set(own_key(), word, kShortly).IgnoreError();
  // The others have waited about as long. Then the first of them says what it came to, and if it does not,
  // each says so itself.
  const absl::Time all_reported = absl::Now() + kShortly, all_told = all_reported + kShortly;
  std::vector<LateReport> reports;
  while (true) {
    Words words = HearAll(options_.rank, all_told);
    if (words.store_gone) return LostRankError(options_.names[0], "it has ended");
    if (words.failure) return *std::move(words.failure);
    FTUNE_RETURN_IF_ERROR(options_.store->Trouble(std::max(all_told - absl::Now(), kRetry)));
    if (words.heard) reports = std::move(words.late);
    const bool first = std::none_of(reports.begin(), reports.end(),
                                    [&](const LateReport& other) { return other.rank < options_.rank; });
    const bool all = reports.size() + 1 == options_.names.size();
    if (absl::Now() >= all_told || (first && (all || absl::Now() >= all_reported))) break;
    absl::SleepFor(kRetry);
  }
  reports.push_back(report);
  const std::optional<Blame> blame = BlameFor(reports);
  if (!blame) return LostRankError(options_.names[options_.rank], "it waits for nobody that is missing");
  return TimeoutError(options_.names[blame->rank], blame->call, blame->waited);
}

}  // namespace ftune
