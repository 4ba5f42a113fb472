// What is told of the uses of a block's memory. Where parameters are sharded over ranks, values are gathered
// before a use and gradients are reduced when they are complete. By default nothing is to be done.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"

namespace ftune {

// Blocks are numbered as in the model. All ranks make the same calls in the same order.
class BlockHooks {
 public:
  virtual ~BlockHooks() = default;

  // From here to AfterUse the values of the block, and of the one whose weight it borrows (a tied head's
  // embedding), are whole in memory. `next` is the block whose values are needed next, if it is known.
  virtual void BeforeUse(size_t /*block*/, std::optional<size_t> /*next*/) {}
  virtual void AfterUse(size_t /*block*/) {}

  // The same for values that are about to be written, whatever they are now.
  virtual void BeforeFill(size_t /*block*/) {}
  // Within a use: values were written, by all ranks alike.
  virtual void AfterChange(size_t /*block*/) {}

  // The block is about to add to its gradients and to those that it borrows.
  virtual void BeforeGradients(size_t /*block*/) {}
  // Those of the block are complete for a microbatch, and with `last` for the step.
  virtual void AfterGradients(size_t /*block*/, bool /*last*/) {}

  // What the first rank that has the head says: for what must be the same on all and may not be, where the
  // others do not know it, or run on different processors.
  virtual int64_t FromHead(int64_t value) { return value; }
  // What is computed from here on is of no use: a rank is gone, say.
  virtual bool failed() const { return false; }
  // Why, or what has failed since: for who has used values and looks at what came of it.
  virtual absl::Status status() const { return absl::OkStatus(); }
};

// A use, for as long as it lives.
class BlockUse {
 public:
  BlockUse(BlockHooks& hooks, size_t block, std::optional<size_t> next = std::nullopt)
      : hooks_(hooks), block_(block) {
    hooks_.BeforeUse(block_, next);
  }
  ~BlockUse() { hooks_.AfterUse(block_); }
  BlockUse(const BlockUse&) = delete;
  BlockUse& operator=(const BlockUse&) = delete;

 private:
  BlockHooks& hooks_;
  size_t block_;
};

// A use that writes values of a block; the others stay as they are.
class BlockChange {
 public:
  BlockChange(BlockHooks& hooks, size_t block) : hooks_(hooks), block_(block), use_(hooks, block) {}
  ~BlockChange() { hooks_.AfterChange(block_); }
  BlockChange(const BlockChange&) = delete;
  BlockChange& operator=(const BlockChange&) = delete;

 private:
  BlockHooks& hooks_;
  size_t block_;
  BlockUse use_;
};

// The first one: all values that it does not write are lost.
class BlockFill {
 public:
  BlockFill(BlockHooks& hooks, size_t block) : hooks_(hooks), block_(block) { hooks_.BeforeFill(block_); }
  ~BlockFill() {
    hooks_.AfterChange(block_);
    hooks_.AfterUse(block_);
  }
  BlockFill(const BlockFill&) = delete;
  BlockFill& operator=(const BlockFill&) = delete;

 private:
  BlockHooks& hooks_;
  size_t block_;
};

}  // namespace ftune
