#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/time/clock.h"
#include "base/folder.h"
#include "base/scratch_folder.h"
#include "parallel/launch/mirror/host_mirror.h"
#include "parallel/launch/mirror/mirror_inventory.h"
#include "parallel/launch/mirror/mirror_messages.h"
#include "parallel/launch/mirror/mirror_parts.h"
#include "parallel/launch/mirror/mirror_receiver.h"
#include "parallel/launch/mirror/mirror_sender.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

const MirrorParts kParts = {.appended = {"log"},
                            .growing = {"events"},
                            .whole = {"recipe", "model"},
                            .collections = {"checkpoints"},
                            .announced = {"model"}};

void Write(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

std::string Read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Two folders, and what goes between them.
struct Pair {
  ScratchFolder scratch = *ScratchFolder::Create();
  fs::path from = scratch.path() / "from", to = scratch.path() / "to";
  std::mutex begins;  // held until there is a sender: the first answer may come before
  std::unique_ptr<MirrorSender> sender;
  std::unique_ptr<MirrorReceiver> receiver;

  Pair() {
    fs::create_directories(from);
    fs::create_directories(to);
  }

  void Start(bool clears = false, const std::function<absl::Status()>& clear = {}) {
    sender.reset();
    receiver = std::make_unique<MirrorReceiver>(MirrorReceiver::Options{
        .folder = to, .parts = kParts, .clear = clear, .send = [this](const Frame& frame) {
          const std::lock_guard lock(begins);
          sender->Take(frame);
        }});
    const std::lock_guard lock(begins);
    sender = std::make_unique<MirrorSender>(
        MirrorSender::Options{.folder = from,
                              .parts = kParts,
                              .there = *TakeInventory(to, kParts),
                              .begins = clears,
                              .send = [this](const Frame& frame) { receiver->Take(frame); }});
  }

  absl::Status Finish() {
    sender->Finish();
    while (!sender->finished()) absl::SleepFor(absl::Milliseconds(1));
    return sender->status();
  }

  // Looks that much later that something which has changed must have been sent.
  template <class Done>
  void Await(const Done& done) {
    for (int i = 0; i < 10'000 && !done(); ++i) absl::SleepFor(absl::Milliseconds(2));
    CHECK(done());
  }
};

}  // namespace

TEST_CASE("a mirror becomes equal, whatever there was") {
  Pair pair;
  Write(pair.from / "recipe", "new");
  Write(pair.from / "log", "one\ntwo\n");
  Write(pair.from / "model/a/b", std::string(1'000'000, 'x'));
  Write(pair.from / "model/empty", "");
  Write(pair.from / "checkpoints/step-2/manifest", "2");
  Write(pair.from / "checkpoints/.incomplete/manifest", "3");
  Write(pair.from / "other", "not of it");
  Write(pair.to / "recipe", "old");
  Write(pair.to / "log", "one\n");
  Write(pair.to / "checkpoints/step-1/manifest", "1");
  Write(pair.to / "other", "its own");
  pair.Start();
  CHECK(pair.Finish().ok());
  CHECK(Read(pair.to / "recipe") == "new");
  CHECK(Read(pair.to / "log") == "one\ntwo\n");
  CHECK(Read(pair.to / "model/a/b").size() == 1'000'000);
  CHECK(Exists(pair.to / "model/empty"));
  CHECK(Read(pair.to / "checkpoints/step-2/manifest") == "2");
  CHECK(!Exists(pair.to / "checkpoints/step-1"));
  CHECK(!Exists(pair.to / "checkpoints/.incomplete"));
  CHECK(!Exists(pair.to / ".incomplete-mirror"));
  CHECK(Read(pair.to / "other") == "its own");
  CHECK(*LookAtUnits(pair.from, kParts) == *LookAtUnits(pair.to, kParts));
}

TEST_CASE("a mirror follows: what grows, by whole lines; what is replaced, removed, begun anew") {
  Pair pair;
  Write(pair.from / "log", "one\n");
  pair.Start();
  pair.Await([&] { return Read(pair.to / "log") == "one\n"; });
  std::ofstream(pair.from / "log", std::ios::app) << "two\nthr";
  pair.Await([&] { return Read(pair.to / "log") == "one\ntwo\n"; });
  // Somebody else may append there too.
  std::ofstream(pair.to / "log", std::ios::app) << "other\n";
  std::ofstream(pair.from / "log", std::ios::app) << "ee\n";
  pair.Await([&] { return Read(pair.to / "log") == "one\ntwo\nother\nthree\n"; });
  Write(pair.from / "events/1", "no line");
  pair.Await([&] { return Read(pair.to / "events/1") == "no line"; });
  Write(pair.from / "checkpoints/step-1/manifest", "1");
  pair.Await([&] { return Exists(pair.to / "checkpoints/step-1/manifest"); });
  fs::rename(pair.from / "checkpoints/step-1", pair.from / "checkpoints/step-2");
  pair.Await([&] {
    return Exists(pair.to / "checkpoints/step-2/manifest") && !Exists(pair.to / "checkpoints/step-1");
  });
  Write(pair.from / "log", "anew\nno end");
  CHECK(pair.Finish().ok());
  CHECK(Read(pair.to / "log") == "anew\nno end");
}

TEST_CASE("the log can come after all that it tells of") {
  for (const bool appended_last : {false, true}) {
    Pair pair;
    Write(pair.from / "log", "one\n");
    Write(pair.from / "checkpoints/step-1/manifest", "1");
    std::vector<std::string> units;
    pair.receiver = std::make_unique<MirrorReceiver>(MirrorReceiver::Options{
        .folder = pair.to, .parts = kParts, .send = [&](const Frame& frame) { pair.sender->Take(frame); }});
    const auto send = [&](const Frame& frame) {
      const std::string op = frame.facts.value("op", "");
      if (op == mirror::kAppend || op == mirror::kCommit) units.push_back(frame.facts.value("unit", ""));
      pair.receiver->Take(frame);
    };
    pair.sender = std::make_unique<MirrorSender>(MirrorSender::Options{
        .folder = pair.from, .parts = kParts, .appended_last = appended_last, .send = send});
    CHECK(pair.Finish().ok());
    std::vector<std::string> expected = {"log", "checkpoints/step-1"};
    if (appended_last) std::swap(expected[0], expected[1]);
    CHECK(units == expected);
  }
}

TEST_CASE("a mirror with the same log goes on from the launcher's, one with less of it does not") {
  Pair pair;
  Write(pair.from / "log", "one\nadded\ntwo\n");
  const MirrorOrder order = {.folder = (pair.to / "run").string(),
                             .identity = "here:/run",
                             .lock = "lock",
                             .parts = kParts,
                             .log = *LookAtLines(pair.from / "log", "added"),
                             .own = "added"};
  const absl::StatusOr<std::unique_ptr<HostMirror>> mirror = HostMirror::Open(order, [](const Frame&) {});
  REQUIRE(mirror.ok());
  const auto facts = [&](const std::string& log) {
    Write(pair.to / "run/log", log);
    return *(*mirror)->Facts();
  };
  CHECK(!facts("one\n").value("continues", true));
  CHECK(!facts("one\nother\n").value("continues", true));
  CHECK(facts("one\ntwo\n").value("continues", false));
  CHECK(facts("one\ntwo\n").value("same_log", false));
  CHECK(facts("one\ntwo\nthree\n").value("continues", false));
  CHECK(!facts("one\ntwo\nthree\n").value("same_log", true));
}

TEST_CASE("a request that cannot be passed on is passed on when it can be") {
  const ScratchFolder scratch = *ScratchFolder::Create();
  const fs::path folder = scratch.path() / "run", away = scratch.path() / "away";
  const auto mirror = *HostMirror::Open(
      {.folder = folder.string(), .identity = "run", .lock = "lock", .parts = kParts, .begins = true},
      [](const Frame&) {});
  fs::rename(mirror->folder(), away);
  mirror->Request("save");
  mirror->Request("../outside");
  CHECK_FALSE(fs::exists(away / "save"));
  fs::rename(away, mirror->folder());
  mirror->PassRequests();
  CHECK(fs::exists(mirror->folder() / "save"));
  fs::remove(mirror->folder() / "save");
  mirror->PassRequests();  // once
  CHECK_FALSE(fs::exists(mirror->folder() / "save"));
  CHECK_FALSE(fs::exists(scratch.path() / "outside"));
}

TEST_CASE("what another run left goes when the new one has begun, and not before") {
  Pair pair;
  Write(pair.to / "recipe", "old");
  Write(pair.from / "recipe", "new");
  int cleared = 0;
  pair.Start(/*begins=*/true, [&] {
    ++cleared;
    return RemoveFolder(pair.to / "recipe");
  });
  CHECK(pair.Finish().ok());
  CHECK(cleared == 0);
  CHECK(Read(pair.to / "recipe") == "old");
  Write(pair.from / "log", "");
  pair.Start(/*begins=*/true, [&] {
    ++cleared;
    return RemoveFolder(pair.to / "recipe");
  });
  CHECK(pair.Finish().ok());
  CHECK(cleared == 1);
  CHECK(Read(pair.to / "recipe") == "new");
  CHECK(Exists(pair.to / "log"));
}

TEST_CASE("what cannot be written is told, leaves no trace, and comes when it can be") {
  Pair pair;
  Write(pair.from / "log", "one\n");
  pair.Start();
  Write(pair.to / "checkpoints", "a file");
  Write(pair.from / "checkpoints/step-1/manifest", "1");
  CHECK(!pair.Finish().ok());
  CHECK(!pair.receiver->status().ok());
  CHECK(pair.receiver->TakeFailures().size() == 1);
  CHECK(Read(pair.to / "log") == "one\n");
  fs::remove(pair.to / "checkpoints");
  pair.Start();
  CHECK(pair.Finish().ok());
  CHECK(pair.receiver->status().ok());
  CHECK(Read(pair.to / "checkpoints/step-1/manifest") == "1");
}

TEST_CASE("a log that goes on from another is told by its lines, but for those that were added elsewhere") {
  Pair pair;
  Write(pair.from / "log", "one\nadded\ntwo\n");
  Write(pair.to / "log", "one\ntwo\nthree\nadded\n");
  const AppendedFile log = *LookAtLines(pair.from / "log", "added");
  CHECK(log.size == 8);
  CHECK(*LookAtLines(pair.to / "log", "added", log.size) == log);
  CHECK(LookAtLines(pair.to / "log", "added")->size == 14);
  CHECK(!(*LookAtLines(pair.to / "log", "none", log.size + 6) == *LookAtLines(pair.from / "log", "none")));
  CHECK(LookAtLines(pair.to / "no log", "added")->size == 0);
}

TEST_CASE("half of a unit is never seen, and nothing is written outside") {
  Pair pair;
  Write(pair.to / "model/a", "old");
  pair.Start();
  CHECK(pair.Finish().ok());  // there is none: it is removed
  CHECK(!Exists(pair.to / "model"));
  const auto send = [&](nlohmann::json facts, const std::string& bytes) {
    pair.receiver->Take({.kind = mirror::kDo, .facts = std::move(facts), .bytes = bytes});
  };
  send({{"op", mirror::kBegin}, {"unit", "model"}}, "");
  send({{"op", mirror::kData}, {"file", "a"}, {"at", 0}}, "half");
  pair.Await([&] { return Exists(pair.to / ".incomplete-mirror/a"); });
  CHECK(!Exists(pair.to / "model"));
  send({{"op", mirror::kData}, {"file", "../out"}, {"at", 0}}, "x");
  pair.Await([&] { return !pair.receiver->status().ok(); });
  send({{"op", mirror::kBegin}, {"unit", "checkpoints/../../out"}}, "");
  send({{"op", mirror::kAppend}, {"unit", "../log"}, {"at", 0}, {"anew", true}}, "x");
  send({{"op", mirror::kCommit}, {"unit", "model"}, {"files", nlohmann::json::array()}}, "");
  pair.receiver.reset();
  CHECK(!Exists(pair.to / ".incomplete-mirror"));
  CHECK(!Exists(pair.scratch.path() / "out"));
  CHECK(!Exists(pair.scratch.path() / "log"));
  CHECK(!Exists(pair.to / "model"));
}

}  // namespace ftune
