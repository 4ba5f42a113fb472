#include "engine/checkpoint/checkpoint_loader.h"

#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "engine/checkpoint/state_slice.h"

namespace ftune {
namespace {

absl::Status Mismatch(const std::string& tensor, const std::string& message, const std::string& found = "",
                      const std::string& expected = "") {
  return DataError({.file = "checkpoint",
                    .key = tensor,
                    .message = message,
                    .found = found,
                    .expected = expected,
                    .hint = "resume with the model, adapter and optimizer that the run was started with"});
}

std::string Describe(DType dtype, const std::vector<int64_t>& shape) {
  return StrCat(std::string(Name(dtype)), " [", StrJoin(shape, ", "), "]");
}

class Loader {
 public:
  Loader(Backend& backend, Stream stream, CheckpointReader& reader, const ModelShards& shards,
         Optimizer& optimizer)
      : backend_(backend), stream_(stream), reader_(reader), shards_(shards), optimizer_(optimizer) {}

  absl::Status LoadAll(const Model& model) {
    std::vector<StateSlice> slices = SlicesToRead(model, shards_, optimizer_);
    for (size_t begin = 0; begin < slices.size();) {
      if (slices[begin].state == kOwedName) {
        FTUNE_RETURN_IF_ERROR(LoadOwed(slices[begin++]));
        continue;
      }
      size_t end = begin + 1;
      while (end < slices.size() && slices[end].parameter == slices[begin].parameter &&
             slices[end].state != kOwedName) {
        ++end;
      }
      FTUNE_RETURN_IF_ERROR(LoadParameter({slices.data() + begin, end - begin}));
      begin = end;
    }
    return absl::OkStatus();
  }

  absl::Status LoadMastersOf(const Model& model) {
    for (const StateSlice& slice : SlicesToRead(model, shards_, optimizer_)) {
      const bool master = slice.state.empty() && !slice.kept_as.empty();
      const CheckpointTensor* const found = reader_.manifest().Find(slice.parameter->name);
      if (!master || found == nullptr) continue;
      if (found->dtype != slice.dtype || found->shape != slice.shape) continue;
      FTUNE_RETURN_IF_ERROR(optimizer_.ChangeStateOf(
          *slice.parameter,
          [&](const std::vector<NamedTensor>& kept) { return LoadKept(*found, slice, kept); }));
    }
    return absl::OkStatus();
  }

 private:
  // What the optimizer has under the slice's name; the parameter's values too, where that is their master.
  absl::Status LoadKept(const CheckpointTensor& tensor, const StateSlice& slice,
                        const std::vector<NamedTensor>& kept) {
    for (const NamedTensor& k : kept) {
      if (k.name != slice.kept_as) continue;
      FTUNE_RETURN_IF_ERROR(Read(tensor, slice, k.tensor));
      if (slice.state.empty()) {
        backend_.Convert(stream_, k.tensor, OwnedValues(*slice.store, *slice.parameter));
      }
    }
    return absl::OkStatus();
  }

  // All slices of one parameter, of which the first has its values.
  absl::Status LoadParameter(std::span<const StateSlice> slices) {
    const StateSlice& values = slices.front();
    const std::string& name = values.parameter->name;
    const CheckpointTensor* const found = reader_.manifest().Find(name);
    if (found == nullptr)
      return Mismatch(name, "this parameter is trained, and the checkpoint does not have it");
    if (values.kept_as.empty()) {
      FTUNE_RETURN_IF_ERROR(Read(*found, values, OwnedValues(*values.store, *values.parameter)));
    }
    return optimizer_.ChangeStateOf(
        *values.parameter, [&](const std::vector<NamedTensor>& kept) -> absl::Status {
          for (const StateSlice& slice : slices) {
            if (slice.kept_as.empty()) continue;
            const CheckpointTensor* const tensor = reader_.manifest().Find(name, slice.state);
            if (tensor == nullptr) return NoState(slice, reader_.manifest().optimizer.contains(name));
            FTUNE_RETURN_IF_ERROR(LoadKept(*tensor, slice, kept));
          }
          return absl::OkStatus();
        });
  }

  // A run that did not compress owes nothing.
  absl::Status LoadOwed(const StateSlice& slice) {
    const CheckpointTensor* const tensor = reader_.manifest().Find(slice.parameter->name, slice.state);
    if (tensor == nullptr) return absl::OkStatus();
    return Read(*tensor, slice, shards_.compressed()->owed(slice.block).values);
  }

  static absl::Status NoState(const StateSlice& slice, bool has_others) {
    const std::string name = StrCat(slice.parameter->name, ": ", slice.state);
    if (slice.state.find("@tensor=") == std::string::npos) {
      return Mismatch(name, has_others ? "the checkpoint has other states of the optimizer, but not this one"
                                       : "the checkpoint has no states of the optimizer for it");
    }
    return UsageError(
        {.key = "parallel.tensor",
         .message = StrCat("the checkpoint has no ", name,
                           ": this optimizer keeps its state in blocks of what a rank holds, which only the "
                           "same split over the tensor axis has"),
         .hint = "resume with the parallel.tensor that it was written with; all other axes may change"});
  }

  absl::Status Read(const CheckpointTensor& tensor, const StateSlice& slice, const Tensor& to) {
    const std::string name =
        slice.state.empty() ? slice.parameter->name : StrCat(slice.parameter->name, ": ", slice.state);
    if (tensor.dtype != slice.dtype || tensor.shape != slice.shape) {
      return Mismatch(name, "", Describe(tensor.dtype, tensor.shape), Describe(slice.dtype, slice.shape));
    }
    if (!backend_.computes()) return absl::OkStatus();
    int64_t at = slice.values.begin;
    for (const Region& region : slice.regions) {
      const Tensor part = to.Cols(at, region.elements());
      buffer_.resize(static_cast<size_t>(BytesFor(slice.dtype, region.elements())));
      FTUNE_RETURN_IF_ERROR(reader_.Read(tensor, region, buffer_.data()));
      backend_.Upload(stream_, buffer_, part);
      at += region.elements();
    }
    return absl::OkStatus();
  }

  Backend& backend_;
  Stream stream_;
  CheckpointReader& reader_;
  const ModelShards& shards_;
  Optimizer& optimizer_;
  std::vector<std::byte> buffer_;
};

// What the checkpoint has is what some rank has loaded.
absl::Status CheckNothingIsLeft(const Manifest& manifest, const Model& model, ModelShards& shards) {
  std::set<std::string> trained;
  for (const auto& block : model.blocks()) {
    for (const Parameter& p : std::as_const(*block).store().parameters()) {
      if (p.trainable) trained.insert(p.name);
    }
  }
  Communicator& pipeline = shards.mesh().axis(MeshAxis::kPipeline);
  std::vector<int64_t> known;
  for (const auto& [name, tensor] : manifest.values) known.push_back(trained.contains(name) ? 1 : 0);
  if (!known.empty()) {
    FTUNE_RETURN_IF_ERROR(pipeline.Run(Call::AllReduce(
        {reinterpret_cast<std::byte*>(known.data()), std::ssize(known), DType::kI64, {}}, ReduceOp::kMax)));
  }
  size_t i = 0;
  for (const auto& [name, tensor] : manifest.values) {
    if (known[i++] == 0) return Mismatch(name, "the checkpoint has it, and this run does not train it");
  }
  return absl::OkStatus();
}

// A rank that fails must not leave the others waiting.
absl::Status AgreeOn(const absl::Status& loaded, ModelShards& shards) {
  if (shards.AgreeOn(loaded.ok() ? 0 : 1) == 0 || !loaded.ok()) return loaded;
  return UserError(
      ExitCode::kRankFailed,
      {.key = "checkpoint", .message = "another rank could not load it; its own error says why"});
}

// What each rank owns has changed.
absl::Status Publish(ModelShards& shards) {
  shards.PublishValues();
  shards.SettleValues();
  return shards.status();
}

}  // namespace

absl::Status LoadCheckpoint(Backend& backend, Stream stream, CheckpointReader& reader, Model& model,
                            ModelShards& shards, Optimizer& optimizer) {
  FTUNE_RETURN_IF_ERROR(AgreeOn(Loader(backend, stream, reader, shards, optimizer).LoadAll(model), shards));
  FTUNE_RETURN_IF_ERROR(CheckNothingIsLeft(reader.manifest(), model, shards));
  optimizer.set_updates(reader.manifest().state.updates);
  return Publish(shards);
}

absl::Status LoadMasters(Backend& backend, Stream stream, CheckpointReader& reader, Model& model,
                         ModelShards& shards, Optimizer& optimizer) {
  FTUNE_RETURN_IF_ERROR(
      AgreeOn(Loader(backend, stream, reader, shards, optimizer).LoadMastersOf(model), shards));
  return Publish(shards);
}

}  // namespace ftune
