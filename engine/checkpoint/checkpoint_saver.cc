#include "engine/checkpoint/checkpoint_saver.h"

#include <unistd.h>

#include <exception>
#include <numeric>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/strings.h"
#include "base/timeline.h"
#include "engine/checkpoint/manifest_part.h"
#include "engine/checkpoint/superseded.h"
#include "parallel/comm/gather_text.h"

namespace ftune {
namespace {

namespace fs = std::filesystem;

// Names of what is no checkpoint, or no longer one.
constexpr std::string_view kUnfinished[] = {".incomplete-", ".removing-"};

absl::Status RemoveUnfinished(const fs::path& checkpoints) {
  FTUNE_ASSIGN_OR_RETURN(const std::vector<fs::path> entries, ListFolder(checkpoints));
  for (const fs::path& entry : entries) {
    const std::string name = entry.filename().string();
    for (const std::string_view prefix : kUnfinished) {
      if (name.starts_with(prefix)) FTUNE_RETURN_IF_ERROR(RemoveFolder(entry));
    }
  }
  return absl::OkStatus();
}

absl::Status MakeEmpty(const fs::path& folder) {
  FTUNE_RETURN_IF_ERROR(RemoveFolder(folder));
  return MakeFolder(folder);
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointSaver>> CheckpointSaver::Create(Backend& backend, Stream stream,
                                                                         const Model& model,
                                                                         ModelShards& shards,
                                                                         const Optimizer& optimizer,
                                                                         const SaverOptions& options) {
  FTUNE_ASSIGN_OR_RETURN(RankShards own, RankShards::Create(model, shards, optimizer));
  std::unique_ptr<CheckpointSaver> saver(
      new CheckpointSaver(backend, stream, shards, options, std::move(own)));
  Communicator& world = shards.mesh().world();
  saver->group_ = &world;
  if (world.size() > 1) {
    std::vector<int> all(world.size());
    std::iota(all.begin(), all.end(), 0);
    FTUNE_ASSIGN_OR_RETURN(saver->own_group_, world.Split(all));
    saver->own_group_->set_timeout(options.timeout);
    saver->group_ = saver->own_group_.get();
  }
  absl::Status made;
  if (saver->leads()) {
    made = MakeFolder(options.checkpoints);
    if (made.ok() && options.checkpoints.has_parent_path())
      made = SyncFolder(options.checkpoints.parent_path());
    if (made.ok()) made = RemoveUnfinished(options.checkpoints);
  }
  FTUNE_RETURN_IF_ERROR(saver->Agree(made));
  FTUNE_RETURN_IF_ERROR(saver->FindSharing());
  return saver;
}

CheckpointSaver::~CheckpointSaver() {
  if (thread_.joinable()) thread_.join();
}

// A rank on a host with another disk does not find what the first has written.
absl::Status CheckpointSaver::FindSharing() {
  sees_.assign(group_->size(), 1);
  int64_t token = static_cast<int64_t>(getpid()) * 1'000'000 + absl::ToUnixMicros(absl::Now()) % 1'000'000;
  FTUNE_RETURN_IF_ERROR(
      group_->Run(Call::Broadcast({reinterpret_cast<std::byte*>(&token), 1, DType::kI64, {}}, 0)));
  const fs::path probe = options_.checkpoints / StrCat(".incomplete-probe-", token);
  FTUNE_RETURN_IF_ERROR(Agree(leads() ? MakeFolder(probe) : absl::OkStatus()));
  int64_t sees = Exists(probe) && access(options_.checkpoints.c_str(), W_OK) == 0 ? 1 : 0;
  FTUNE_RETURN_IF_ERROR(group_->Run(
      Call::AllGather({reinterpret_cast<std::byte*>(&sees), 1, DType::kI64, {}},
                      {reinterpret_cast<std::byte*>(sees_.data()), std::ssize(sees_), DType::kI64, {}},
                      std::vector<int64_t>(sees_.size(), 1))));
  return leads() ? RemoveFolder(probe) : absl::OkStatus();
}

absl::Status CheckpointSaver::Agree(const absl::Status& own) {
  FTUNE_ASSIGN_OR_RETURN(const int64_t failed, group_->AllReduce(own.ok() ? int64_t{0} : int64_t{1}));
  FTUNE_RETURN_IF_ERROR(own);
  if (failed == 0) return absl::OkStatus();
  return UserError(
      ExitCode::kRankFailed,
      {.key = "checkpoint", .message = "another rank could not write it; its own error says why"});
}

bool CheckpointSaver::busy() const { return writing_; }

void CheckpointSaver::Wait() {
  if (!thread_.joinable()) return;
  thread_.join();
  reports_.push_back(std::exchange(report_, {}));
}

std::vector<SaveReport> CheckpointSaver::TakeReports() {
  if (!busy()) Wait();
  return std::exchange(reports_, {});
}

absl::Status CheckpointSaver::Save(const TrainerState& state) {
  const double begin = Timeline::Now();
  Wait();
  if (shards_.compressed() != nullptr) FTUNE_RETURN_IF_ERROR(shards_.compressed()->TakeOwed());
  std::span<std::byte> snapshot;
  if (options_.async) {
    FTUNE_RETURN_IF_ERROR(own_.TakeSnapshot(backend_, stream_, snapshot_));
    if (snapshot_.defined()) snapshot = {snapshot_.bytes(), static_cast<size_t>(own_.data_bytes())};
  }
  report_ = {.step = state.position.step,
             .folder = options_.checkpoints / CheckpointName(state.position.step),
             .stall_seconds = Timeline::Now() - begin};
  const auto write = [this, state, snapshot, begin] {
    Write(state, snapshot, report_);
    report_.seconds = Timeline::Now() - begin;
  };
  if (!options_.async) {
    write();
    report_.stall_seconds = report_.seconds;
    reports_.push_back(std::exchange(report_, {}));
    return absl::OkStatus();
  }
  writing_ = true;
  thread_ = std::thread([this, write] {
    try {
      write();
    } catch (const std::exception& error) {
      report_.status = absl::ResourceExhaustedError(StrCat("writing a checkpoint: ", error.what()));
      group_->Abort(report_.status);  // the others shall not wait
    }
    writing_ = false;
  });
  return absl::OkStatus();
}

void CheckpointSaver::Write(const TrainerState& state, std::span<const std::byte> snapshot,
                            SaveReport& report) {
  const fs::path folder = options_.checkpoints / StrCat(".incomplete-", CheckpointName(report.step));
  report.status = Agree(leads() ? MakeEmpty(folder) : absl::OkStatus());
  if (!report.status.ok()) return;
  Manifest part;
  const absl::Status written = WriteShards(folder, snapshot, part);
  // Also where this rank failed: the others are to hear of it.
  const absl::StatusOr<std::vector<std::string>> parts =
      GatherText(*group_, written.ok() ? EncodePart(part) : EncodeFailure(written));
  report.status = parts.status();
  if (!report.status.ok()) return;
  absl::Status committed = written;
  if (leads()) committed = Commit(state, folder, *parts, report);
  report.status = Agree(committed);
  if (leads() && !report.status.ok()) RemoveFolder(folder).IgnoreError();
}

absl::Status CheckpointSaver::WriteOwn(const fs::path& folder, std::span<const std::byte> snapshot,
                                       Manifest& part) {
  if (sees_[group_->rank()] != 0) {
    FTUNE_ASSIGN_OR_RETURN(part.files, own_.Write(*MakeFolderSink(folder), snapshot));
  } else {
    RemoteSink sink(*group_, 0);
    absl::StatusOr<std::vector<CheckpointFile>> files = own_.Write(sink, snapshot);
    FTUNE_RETURN_IF_ERROR(sink.End());
    FTUNE_ASSIGN_OR_RETURN(part.files, std::move(files));
  }
  own_.Enter(0, part);
  return absl::OkStatus();
}

absl::Status CheckpointSaver::WriteShards(const fs::path& folder, std::span<const std::byte> snapshot,
                                          Manifest& part) {
  absl::Status status = WriteOwn(folder, snapshot, part);
  for (int rank = 0; leads() && rank < group_->size(); ++rank) {
    if (sees_[rank] != 0) continue;
    status.Update(ReceiveShards(*group_, rank, *MakeFolderSink(folder)));
    FTUNE_RETURN_IF_ERROR(group_->status());
  }
  return status;
}

absl::Status CheckpointSaver::Commit(const TrainerState& state, const fs::path& folder,
                                     const std::vector<std::string>& parts, SaveReport& report) {
  Manifest manifest;
  manifest.step = report.step;
  manifest.recipe = options_.recipe;
  manifest.model = options_.model;
  manifest.data = options_.data;
  manifest.adapter = options_.adapter;
  manifest.seed = options_.seed;
  manifest.state = state;
  manifest.mesh = options_.mesh;
  for (const std::string& part : parts) FTUNE_RETURN_IF_ERROR(AddPart(part, manifest));
  FTUNE_RETURN_IF_ERROR(CheckComplete(manifest));
  report.bytes = manifest.bytes();
  FTUNE_RETURN_IF_ERROR(SyncFolder(folder));
  if (Exists(report.folder) && !IsOwn({report.step, report.folder})) {
    return DataError({.file = report.folder.string(),
                      .message = "something that is no checkpoint of this run is in the place of one",
                      .hint = "move it away"});
  }
  FTUNE_RETURN_IF_ERROR(CommitCheckpoint(folder, manifest, report.folder));
  is_own_[report.folder.filename().string()] = true;
  // Old ones go only now that the new one is durable.
  FTUNE_RETURN_IF_ERROR(RemoveOld(state, report));
  return RemoveSuperseded(report);
}

bool CheckpointSaver::IsOwn(const CheckpointEntry& entry) {
  const std::string name = entry.folder.filename().string();
  const auto known = is_own_.find(name);
  if (known != is_own_.end()) return known->second;
  const absl::StatusOr<Manifest> manifest = ReadManifest(entry.folder);
  const bool own = manifest.ok() && options_.is_own(entry, *manifest);
  is_own_[name] = own;
  return own;
}

absl::Status CheckpointSaver::RemoveOld(const TrainerState& state, SaveReport& report) {
  Retention retention = options_.retention;
  if (options_.keep_best && state.best_loss) retention.best_step = state.best_step;
  FTUNE_ASSIGN_OR_RETURN(const std::vector<CheckpointEntry> entries, ListCheckpoints(options_.checkpoints));
  std::vector<int64_t> steps;
  for (const CheckpointEntry& entry : entries) {
    if (IsOwn(entry)) steps.push_back(entry.step);
  }
  for (const int64_t step : StepsToRemove(steps, retention)) {
    FTUNE_RETURN_IF_ERROR(RemoveCheckpoint(options_.checkpoints / CheckpointName(step)));
    report.removed.push_back(step);
  }
  return absl::OkStatus();
}

absl::Status CheckpointSaver::RemoveSuperseded(SaveReport& report) {
  FTUNE_ASSIGN_OR_RETURN(std::vector<SupersededCheckpoint> aside, ListSuperseded(options_.checkpoints));
  std::erase_if(aside, [this](const SupersededCheckpoint& one) { return !IsOwn(one.entry); });
  const int64_t excess = std::ssize(aside) - options_.retention.keep_last;
  for (int64_t i = 0; i < excess; ++i) {
    FTUNE_RETURN_IF_ERROR(RemoveCheckpoint(aside[i].entry.folder));
    report.removed_superseded.push_back(aside[i].entry.folder.filename().string());
  }
  return absl::OkStatus();
}

}  // namespace ftune
