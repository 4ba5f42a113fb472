// An optimizer on the blocks' flat shards: it owns the state that its rules ask for and the master copies of
// low-precision weights, in memory or, with little of it in memory at a time, on disk.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/optim/piece.h"
#include "engine/optim/rules.h"
#include "engine/optim/shard.h"
#include "engine/optim/state_disk.h"

namespace ftune {

struct NamedTensor {
  std::string name;
  Tensor tensor;
};

struct OffloadOptions {
  StateDisk::Options disk;
  // Of a piece, three of which are in memory: about a block of a small model.
  int64_t piece_bytes = int64_t{32} << 20;
};

// A copy of all that a step changes.
struct OptimizerBackup {
  std::vector<Tensor> tensors;
  int64_t updates = 0;
};

class Optimizer {
 public:
  // Takes what this rank owns of the trainable parameters of `model` as they are now: weights in low
  // precision get their f32 master here, so values are loaded before. `backend` and `model` outlive the
  // optimizer.
  Optimizer(Backend& backend, Stream stream, Model& model, const OptimizerOptions& options);
  // The same, with what it keeps in an unnamed file in the folder. Updates are the same to the bit.
  static absl::StatusOr<std::unique_ptr<Optimizer>> CreateOffloaded(Backend& backend, Stream stream,
                                                                    Model& model,
                                                                    const OptimizerOptions& options,
                                                                    const OffloadOptions& offload);

  // gradient_scale: [1, 1] f32 on the device. An error is the disk's; some weights may be updated then, some
  // not.
  absl::Status Step(Backend& backend, Stream stream, float learning_rate, const Tensor& gradient_scale);
  // Begins to read from disk what the next Step begins with, as far as there is room; never waits. To be
  // called often while there is something else to compute.
  absl::Status Prefetch() { return disk_ ? disk_->Prefetch() : absl::OkStatus(); }

  // Updates made so far: what bias corrections and random rounding count by. Set on a resume.
  int64_t updates() const { return updates_; }
  void set_updates(int64_t updates) { updates_ = updates; }

  // Memory for a backup, in which there is nothing yet. For an optimizer whose states are in memory.
  OptimizerBackup AllocateBackup(Backend& backend) const;
  // Copies the weights that this rank owns, their masters, all states and the counter; puts them back, to the
  // bit.
  void Save(Backend& backend, Stream stream, OptimizerBackup& backup) const;
  void Restore(Backend& backend, Stream stream, const OptimizerBackup& backup);

  // All that this rank keeps for a parameter from step to step: its "master", where it has one, and its
  // rule's state. Views of the flat tensors, or copies of what is on disk. Empty for a frozen parameter.
  absl::StatusOr<std::vector<NamedTensor>> StateOf(const Parameter& parameter) const;
  // What StateOf gives, by name, type and size.
  std::vector<StateSpec> SpecsOf(const Parameter& parameter) const;
  // `change` is given what StateOf gives, and what it writes there is kept.
  absl::Status ChangeStateOf(const Parameter& parameter,
                             const std::function<absl::Status(const std::vector<NamedTensor>&)>& change);
  // One of them; undefined where there is none of that name.
  absl::StatusOr<Tensor> StateOf(const Parameter& parameter, std::string_view name) const;

  // Null where all is in memory.
  const StateDisk* disk() const { return disk_.get(); }

 private:
  // Of one shard, in memory.
  struct FlatState {
    Tensor master;  // undefined where the shard has none
    std::vector<Tensor> state;
  };

  // Only what does not need memory.
  Optimizer(Backend& backend, Model& model, const OptimizerOptions& options);
  absl::Status MoveToDisk(Stream stream, const OffloadOptions& offload);
  // The tensors that a step changes, in a fixed order; without a disk.
  std::vector<Tensor> Changing() const;
  absl::Status StepOnDisk(Backend& backend, Stream stream, float learning_rate, const Tensor& gradient_scale);
  // Updates `count` elements from `begin` on, which are of the run.
  void Update(Backend& backend, Stream stream, const Shard& shard, const ShardRun& run, int64_t begin,
              int64_t count, const Tensor& master, std::vector<Tensor> state, float learning_rate,
              const Tensor& gradient_scale) const;
  absl::StatusOr<std::vector<NamedTensor>> ReadFromDisk(const PlacedParameter& placed,
                                                        const Shard& shard) const;
  absl::Status WriteToDisk(const PlacedParameter& placed, const Shard& shard,
                           const std::vector<NamedTensor>& state);
  // The bytes of a piece, and those of the parameter's state, that are the same: copies from the piece, or to
  // it.
  enum class Way { kFromPiece, kToPiece };
  void CopyPart(const Tensor& memory, const PiecePart& part, const FlatRange& owned,
                const std::vector<NamedTensor>& state, Way way) const;
  struct Placed {
    const Shard* shard = nullptr;
    const PlacedParameter* parameter = nullptr;
  };
  // Null where this rank has nothing of it.
  Placed Find(const Parameter& parameter) const;

  Backend& backend_;
  OptimizerOptions options_;
  UpdateRules rules_;
  std::vector<Shard> shards_;
  std::vector<FlatState> flat_;  // by shard; empty with a disk
  std::vector<Piece> pieces_;    // of the disk
  std::unique_ptr<StateDisk> disk_;
  int64_t updates_ = 0;
};

}  // namespace ftune
