// Saves checkpoints of a run: copies what training changes, and writes it while training goes on.
//
// What the ranks have to tell each other for that they do in a group of their own, from the thread that
// writes. So a rank that dies is known to all, and no checkpoint is made of which a part is missing.
#pragma once

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/rank_shards.h"
#include "engine/train/trainer_state.h"

namespace ftune {

struct SaverOptions {
  std::filesystem::path checkpoints;  // of the run; the first rank sees it, others may not
  bool async = true;                  // write while training goes on
  Retention retention;
  bool keep_best = false;  // sets retention.best_step from the state
  // Whether a checkpoint that lies in the folder is one of this run; what is not is never removed.
  std::function<bool(const CheckpointEntry&, const Manifest&)> is_own = [](const auto&, const auto&) {
    return true;
  };
  // Enter the manifest.
  std::string recipe, model, data, adapter;
  uint64_t seed = 0;
  nlohmann::ordered_json mesh;
  absl::Duration timeout = absl::Minutes(30);  // of what ranks wait for each other while they write
};

// What became of a save.
struct SaveReport {
  int64_t step = 0;
  std::filesystem::path folder;
  int64_t bytes = 0;                            // of all files
  double stall_seconds = 0.0;                   // for which training stood still on this rank
  double seconds = 0.0;                         // from the copy to the name
  std::vector<int64_t> removed;                 // steps of checkpoints that were kept until then
  std::vector<std::string> removed_superseded;  // likewise, names of folders
  absl::Status status;                          // the same kind on all ranks; the first has the cause
};

class CheckpointSaver {
 public:
  // Called by all ranks of the mesh, as are the others. All outlive it. Removes what killed writers have
  // left.
  static absl::StatusOr<std::unique_ptr<CheckpointSaver>> Create(Backend& backend, Stream stream,
                                                                 const Model& model, ModelShards& shards,
                                                                 const Optimizer& optimizer,
                                                                 const SaverOptions& options);
  ~CheckpointSaver();  // waits
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Of the state after a step. Waits for the save before it. Where it is written in the background, nothing
  // is known of it yet when this returns. An error is that of memory, or of an optimizer's disk.
  absl::Status Save(const TrainerState& state);
  // Waits for the save that is under way.
  void Wait();
  // Whether one is, on this rank.
  bool busy() const;
  // Whether the ranks have lost each other, so that no later save can be made either.
  bool broken() const { return !group_->status().ok(); }
  // Of saves that have ended since it was asked last.
  std::vector<SaveReport> TakeReports();

 private:
  CheckpointSaver(Backend& backend, Stream stream, const ModelShards& shards, SaverOptions options,
                  RankShards own)
      : backend_(backend),
        stream_(stream),
        shards_(shards),
        options_(std::move(options)),
        own_(std::move(own)) {}
  bool leads() const { return group_->rank() == 0; }
  absl::Status FindSharing();
  // In the thread that writes.
  void Write(const TrainerState& state, std::span<const std::byte> snapshot, SaveReport& report);
  absl::Status WriteShards(const std::filesystem::path& folder, std::span<const std::byte> snapshot,
                           Manifest& part);
  absl::Status WriteOwn(const std::filesystem::path& folder, std::span<const std::byte> snapshot,
                        Manifest& part);
  absl::Status Commit(const TrainerState& state, const std::filesystem::path& folder,
                      const std::vector<std::string>& parts, SaveReport& report);
  bool IsOwn(const CheckpointEntry& entry);
  absl::Status RemoveOld(const TrainerState& state, SaveReport& report);
  // Of those that the run has set aside it keeps as many as of its others, the newest.
  absl::Status RemoveSuperseded(SaveReport& report);
  // Whether all have succeeded.
  absl::Status Agree(const absl::Status& own);

  Backend& backend_;
  Stream stream_;
  const ModelShards& shards_;
  SaverOptions options_;
  RankShards own_;
  std::unique_ptr<Communicator> own_group_;  // where there are several ranks
  Communicator* group_ = nullptr;
  std::vector<int64_t> sees_;           // by rank: whether it sees the folder
  std::map<std::string, bool> is_own_;  // of the checkpoints in the folder, by name, as far as is known
  Tensor snapshot_;  // kept from the first save on; undefined where saves are not in the background
  std::thread thread_;
  std::atomic<bool> writing_{false};
  SaveReport report_;  // of the thread
  std::vector<SaveReport> reports_;
};

}  // namespace ftune
