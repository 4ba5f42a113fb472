// A model of which one block at a time is in memory: its values are read when they are used, and given up
// when those of another block are. For work that goes through a model once, on files that may be larger than
// memory.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "engine/backend/backend.h"
#include "engine/format/load_weights.h"
#include "engine/model/model.h"

namespace ftune {

class StreamedValues final : public BlockHooks {
 public:
  // `model` was made with ValueMemory::kPlaced; `fills` fill a parameter one after the other. Backend, model
  // and what the fills use outlive it.
  StreamedValues(Backend& backend, Model& model, std::vector<ParameterFill> fills);
  ~StreamedValues() override;
  StreamedValues(const StreamedValues&) = delete;
  StreamedValues& operator=(const StreamedValues&) = delete;

  // A tied head's embedding is there with it.
  void BeforeUse(size_t block, std::optional<size_t> next) override;
  void AfterUse(size_t block) override;

  // Values could not be read: what there is in their place is of no use.
  bool failed() const override { return !status_.ok(); }
  absl::Status status() const override { return status_; }

 private:
  struct Use {
    bool here = false;
    int uses = 0;
  };
  void Hold(size_t block);
  void Read(size_t block);
  void GiveUpUnused();

  Backend& backend_;
  Model& model_;
  std::vector<ParameterFill> fills_;
  std::vector<Use> blocks_;
  absl::Status status_;
};

}  // namespace ftune
