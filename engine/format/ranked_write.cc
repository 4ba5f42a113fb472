#include "engine/format/ranked_write.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/tensor_bytes.h"

namespace ftune {
namespace {

constexpr int64_t kDone = -1, kFailed = -2;

// Says on the first rank, and hears on the others, which tensor is filled next, or that none is.
absl::StatusOr<int64_t> Next(Communicator& world, int64_t next) {
  FTUNE_RETURN_IF_ERROR(
      world.Run(Call::Broadcast({reinterpret_cast<std::byte*>(&next), 1, DType::kI64, {}}, 0)));
  return next;
}

absl::Status Lead(Communicator& world, std::span<const OutputTensor> tensors,
                  const std::function<absl::Status(std::span<const OutputTensor>)>& write) {
  std::vector<OutputTensor> together(tensors.begin(), tensors.end());
  for (size_t i = 0; i < together.size(); ++i) {
    together[i].fill = [&world, i, fill = tensors[i].fill](std::byte* out) -> absl::Status {
      FTUNE_RETURN_IF_ERROR(Next(world, static_cast<int64_t>(i)).status());
      return fill(out);
    };
  }
  const absl::Status written = write(together);
  const absl::Status told = Next(world, written.ok() ? kDone : kFailed).status();
  FTUNE_RETURN_IF_ERROR(written);
  return told;
}

absl::Status Follow(Communicator& world, std::span<const OutputTensor> tensors) {
  std::vector<std::byte> unused;
  for (;;) {
    FTUNE_ASSIGN_OR_RETURN(const int64_t next, Next(world, kDone));
    if (next == kDone) return absl::OkStatus();
    if (next == kFailed) {
      return UserError(ExitCode::kRankFailed,
                       {.key = "rank 0", .message = "it could not write the model; its own error says why"});
    }
    const OutputTensor& tensor = tensors[next];
    FTUNE_ASSIGN_OR_RETURN(const int64_t bytes, CheckedBytes(tensor.dtype, tensor.shape));
    unused.resize(bytes);
    FTUNE_RETURN_IF_ERROR(tensor.fill(unused.data()));
  }
}

// The names and shapes of tensors, for another rank.
std::string Encode(std::span<const OutputTensor> tensors) {
  nlohmann::json list = nlohmann::json::array();
  for (const OutputTensor& tensor : tensors) {
    list.push_back({tensor.name, static_cast<int>(tensor.dtype), tensor.shape, tensor.block});
  }
  return list.dump();
}

std::vector<OutputTensor> Decode(const std::string& text) {
  std::vector<OutputTensor> tensors;
  for (const nlohmann::json& entry : nlohmann::json::parse(text)) {
    tensors.push_back({.name = entry[0],
                       .dtype = static_cast<DType>(entry[1].get<int>()),
                       .shape = entry[2],
                       .block = entry[3]});
  }
  return tensors;
}

// The texts of all ranks, in their order.
absl::StatusOr<std::vector<std::string>> Exchange(Communicator& group, std::string own) {
  std::vector<int64_t> sizes(group.size(), 0);
  int64_t size = std::ssize(own);
  FTUNE_RETURN_IF_ERROR(group.Run(
      Call::AllGather({reinterpret_cast<std::byte*>(&size), 1, DType::kI64, {}},
                      {reinterpret_cast<std::byte*>(sizes.data()), std::ssize(sizes), DType::kI64, {}},
                      std::vector<int64_t>(group.size(), 1))));
  const std::vector<int64_t> offsets = Offsets(sizes);
  std::string all(offsets.back(), '\0');
  FTUNE_RETURN_IF_ERROR(group.Run(
      Call::AllGather({reinterpret_cast<std::byte*>(own.data()), size, DType::kU8, {}},
                      {reinterpret_cast<std::byte*>(all.data()), std::ssize(all), DType::kU8, {}}, sizes)));
  std::vector<std::string> texts;
  for (int rank = 0; rank < group.size(); ++rank) texts.push_back(all.substr(offsets[rank], sizes[rank]));
  return texts;
}

// From the first of the ranks that are `from` on the pipeline to the first of all.
absl::Status BringToFirst(Mesh& mesh, int from, const Buffer& buffer) {
  Communicator& pipeline = mesh.axis(MeshAxis::kPipeline);
  const int first_of_stage = mesh.rank() % (mesh.shape().ranks() / pipeline.size());  // the outermost axis
  if (from == 0 || first_of_stage != 0) return absl::OkStatus();
  if (pipeline.rank() == from) return pipeline.Run(Call::Send(buffer, 0));
  return pipeline.rank() == 0 ? pipeline.Run(Call::Receive(buffer, from)) : absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<OutputTensor>> TensorsOfAllStages(Mesh& mesh, std::vector<OutputTensor> own) {
  Communicator& pipeline = mesh.axis(MeshAxis::kPipeline);
  if (pipeline.size() == 1) return own;
  FTUNE_ASSIGN_OR_RETURN(const std::vector<std::string> lists, Exchange(pipeline, Encode(own)));
  std::vector<OutputTensor> all;
  for (int rank = 0; rank < pipeline.size(); ++rank) {
    std::vector<OutputTensor> tensors = Decode(lists[rank]);
    for (size_t i = 0; i < tensors.size(); ++i) {
      OutputTensor& tensor = tensors[i];
      std::function<absl::Status(std::byte*)> fill;
      if (rank == pipeline.rank()) fill = own[i].fill;
      FTUNE_ASSIGN_OR_RETURN(const int64_t bytes, CheckedBytes(tensor.dtype, tensor.shape));
      tensor.fill = [&mesh, rank, bytes, fill = std::move(fill)](std::byte* out) -> absl::Status {
        if (fill) FTUNE_RETURN_IF_ERROR(fill(out));
        return BringToFirst(mesh, rank, {out, bytes, DType::kU8, {}});
      };
      all.push_back(std::move(tensor));
    }
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const OutputTensor& a, const OutputTensor& b) { return a.block < b.block; });
  return all;
}

absl::Status WriteOnFirstRank(Communicator& world, std::span<const OutputTensor> tensors,
                              const std::function<absl::Status(std::span<const OutputTensor>)>& write) {
  return world.rank() == 0 ? Lead(world, tensors, write) : Follow(world, tensors);
}

}  // namespace ftune
