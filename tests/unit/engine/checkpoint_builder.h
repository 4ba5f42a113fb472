// Checkpoints for tests, cut into slices and files as the test says.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/folder.h"
#include "base/random.h"
#include "base/safetensors.h"
#include "base/strings.h"
#include "base/xxh3_stream.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "tests/unit/base/temp_folder.h"

namespace ftune::testing {

struct BuiltSlice {
  Region region;
  size_t file = 0;
};

struct BuiltTensor {
  std::string name;
  std::string state;  // of the optimizer; empty: the parameter's value
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  std::vector<std::byte> bytes;    // of the whole
  std::vector<BuiltSlice> slices;  // none: one, of the whole, in the first file
};

inline BuiltTensor Floats(std::string name, std::vector<int64_t> shape, const std::vector<float>& values) {
  BuiltTensor tensor{.name = std::move(name), .shape = std::move(shape)};
  const auto bytes = std::as_bytes(std::span(values));
  tensor.bytes.assign(bytes.begin(), bytes.end());
  return tensor;
}

// The whole cut at random: `cuts` times one of the pieces into two.
inline std::vector<Region> RandomTiling(const std::vector<int64_t>& shape, int cuts, RandomSequence& random) {
  std::vector<Region> pieces = {WholeOf(shape)};
  for (int i = 0; i < cuts; ++i) {
    Region& piece = pieces[random.Below(pieces.size())];
    const size_t d = random.Below(shape.size());
    if (piece.size[d] < 2) continue;
    Region rest = piece;
    piece.size[d] = 1 + static_cast<int64_t>(random.Below(piece.size[d] - 1));
    rest.begin[d] += piece.size[d];
    rest.size[d] -= piece.size[d];
    pieces.push_back(rest);
  }
  return pieces;
}

// Writes the files of `tensors`, rank-0.safetensors and on, into `folder`, and adds what the manifest says of
// them to `manifest`.
inline void WriteShardFiles(const std::filesystem::path& folder, std::vector<BuiltTensor> tensors,
                            Manifest& manifest) {
  struct Piece {
    std::string name;
    CheckpointSlice* slice;
    std::vector<std::byte> bytes;
    DType dtype;
  };
  REQUIRE(MakeFolder(folder).ok());
  std::vector<std::vector<Piece>> files(1);
  for (BuiltTensor& tensor : tensors) {
    CheckpointTensor& entry =
        tensor.state.empty() ? manifest.values[tensor.name] : manifest.optimizer[tensor.name][tensor.state];
    entry = {.dtype = tensor.dtype, .shape = tensor.shape};
    if (tensor.slices.empty()) tensor.slices = {{.region = WholeOf(tensor.shape)}};
    entry.slices.resize(tensor.slices.size());
    for (size_t i = 0; i < tensor.slices.size(); ++i) {
      const BuiltSlice& built = tensor.slices[i];
      entry.slices[i] = {.file = built.file, .region = built.region};
      if (files.size() <= built.file) files.resize(built.file + 1);
      Piece& piece = files[built.file].emplace_back();
      piece.name =
          StrCat(tensor.state, tensor.state.empty() ? "" : "/", tensor.name, built.region.Describe());
      piece.slice = &entry.slices[i];
      piece.dtype = tensor.dtype;
      piece.bytes.resize(BytesFor(tensor.dtype, built.region.elements()));
      CopyShared(tensor.dtype, WholeOf(tensor.shape), tensor.bytes.data(), built.region, piece.bytes.data());
    }
  }
  for (size_t f = 0; f < files.size(); ++f) {
    const std::string name = StrCat("rank-", f, ".safetensors");
    std::vector<SafetensorsSpec> specs;
    for (const Piece& piece : files[f]) specs.push_back({piece.name, piece.dtype, piece.slice->region.size});
    auto writer = SafetensorsWriter::Create(folder / name, specs);
    REQUIRE_MESSAGE(writer.ok(), std::string(writer.status().message()));
    int64_t data = 0;
    for (const Piece& piece : files[f]) {
      REQUIRE(writer->Append(piece.bytes).ok());
      data += std::ssize(piece.bytes);
    }
    REQUIRE(writer->Finish().ok());
    const std::string content = ReadBytes(folder / name);
    int64_t at = std::ssize(content) - data;
    for (Piece& piece : files[f]) {
      piece.slice->offset = at;
      at += std::ssize(piece.bytes);
    }
    manifest.files.push_back({name, std::ssize(content), Xxh3Of(content)});
  }
}

// A checkpoint at `folder`, complete.
inline Manifest WriteCheckpoint(const std::filesystem::path& folder, int64_t step,
                                std::vector<BuiltTensor> tensors, Manifest manifest = {}) {
  manifest.step = manifest.state.position.step = step;
  if (manifest.mesh.is_null()) manifest.mesh = {{"tensor", 1}};
  WriteShardFiles(folder, std::move(tensors), manifest);
  WriteBytes(folder / kManifestName, WriteManifest(manifest));
  return manifest;
}

}  // namespace ftune::testing
