#include "engine/verify/reference_file.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <span>

#include "base/convert.h"
#include "base/error.h"
#include "base/safetensors.h"
#include "base/strings.h"
#include "parallel/global_runs.h"

namespace ftune {
namespace {

std::vector<float> ReadFloats(Backend& backend, const Tensor& values) {
  std::vector<std::byte> bytes(static_cast<size_t>(BytesFor(values.dtype(), values.size())));
  backend.Download(Stream(), values, bytes);
  std::vector<float> floats(values.size());
  ConvertToF32(values.dtype(), bytes.data(), values.size(), floats.data());
  return floats;
}

// What one rank adds to the comparison of a tensor.
struct Sums {
  double difference = 0.0;  // Σ (x - x′)²
  double square = 0.0;      // Σ x′²
  double elements = 0.0;
};

double SquareOf(double x) { return x * x; }

float FloatAt(std::span<const std::byte> bytes, int64_t index) {
  float value;
  std::memcpy(&value, bytes.data() + index * static_cast<int64_t>(sizeof(float)), sizeof(float));
  return value;
}

void AddPart(Backend& backend, const StatePart& part, std::span<const std::byte> reference, Sums& sums) {
  const std::vector<float> values = ReadFloats(backend, part.values);
  for (const GlobalRun& run : GlobalRunsOf(part.parameter->dims, part.begin, part.values.size())) {
    for (int64_t i = 0; i < run.count; ++i) {
      const double expected = FloatAt(reference, run.global + i);
      sums.difference += SquareOf(values[run.local - part.begin + i] - expected);
      sums.square += SquareOf(expected);
    }
    sums.elements += static_cast<double>(run.count);
  }
}

int64_t ElementsOf(const SafetensorsEntry& entry) {
  return static_cast<int64_t>(entry.bytes.size() / sizeof(float));
}

}  // namespace

absl::Status WriteReference(Backend& backend, const std::vector<StatePart>& parts,
                            const std::filesystem::path& path) {
  std::vector<SafetensorsSpec> specs;
  for (const StatePart& part : parts) {
    specs.push_back({part.parameter->name, DType::kF32, part.parameter->shape});
  }
  FTUNE_ASSIGN_OR_RETURN(SafetensorsWriter writer, SafetensorsWriter::Create(path, std::move(specs)));
  for (const StatePart& part : parts) {
    const std::vector<float> values = ReadFloats(backend, part.values);
    FTUNE_RETURN_IF_ERROR(writer.Append(std::as_bytes(std::span(values))));
  }
  return writer.Finish();
}

absl::StatusOr<std::vector<TensorDifference>> CompareWithReference(Backend& backend,
                                                                   const std::vector<StatePart>& parts,
                                                                   const std::filesystem::path& path,
                                                                   Communicator& world) {
  FTUNE_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  std::map<std::string_view, size_t> places;
  for (size_t i = 0; i < file.entries().size(); ++i) places[file.entries()[i].name] = i;
  std::vector<Sums> sums(file.entries().size());
  absl::Status unknown;
  for (const StatePart& part : parts) {
    const auto place = places.find(part.parameter->name);
    if (place == places.end()) {
      unknown.Update(DataError({.file = path.string(),
                                .key = part.parameter->name,
                                .message = "one rank alone does not have what a rank of the mesh has"}));
      continue;
    }
    AddPart(backend, part, file.entries()[place->second].bytes, sums[place->second]);
  }
  constexpr int64_t kValues = sizeof(Sums) / sizeof(double);
  FTUNE_RETURN_IF_ERROR(
      world.Run(Call::AllReduce({reinterpret_cast<std::byte*>(sums.data()),
                                 static_cast<int64_t>(sums.size()) * kValues, DType::kF64, Stream()})));
  FTUNE_RETURN_IF_ERROR(unknown);

  std::vector<TensorDifference> differences;
  for (size_t i = 0; i < sums.size(); ++i) {
    const SafetensorsEntry& entry = file.entries()[i];
    // Elements that several ranks hold count as often.
    const double copies = sums[i].elements / static_cast<double>(ElementsOf(entry));
    if (copies < 1.0 || copies != std::floor(copies)) {
      return DataError({.file = path.string(),
                        .key = entry.name,
                        .message = "the ranks together do not hold the tensor",
                        .found = StrCat(static_cast<int64_t>(sums[i].elements), " elements"),
                        .expected = StrCat("a multiple of ", ElementsOf(entry))});
    }
    differences.push_back(
        {entry.name, std::sqrt(sums[i].difference / copies), std::sqrt(sums[i].square / copies)});
  }
  return differences;
}

absl::StatusOr<std::vector<TensorDifference>> DifferencesOfFiles(const std::filesystem::path& path,
                                                                 const std::filesystem::path& reference) {
  FTUNE_ASSIGN_OR_RETURN(const SafetensorsFile file, SafetensorsFile::Open(path));
  FTUNE_ASSIGN_OR_RETURN(const SafetensorsFile other, SafetensorsFile::Open(reference));
  std::vector<TensorDifference> differences;
  for (size_t i = 0; i < file.entries().size(); ++i) {
    const std::span<const std::byte> values = file.entries()[i].bytes;
    const SafetensorsEntry* same = other.Find(file.entries()[i].name);
    if (same == nullptr || same->bytes.size() != values.size()) {
      return DataError({.file = reference.string(),
                        .key = file.entries()[i].name,
                        .message = StrCat("it is not what ", path.string(), " has")});
    }
    double difference = 0.0, square = 0.0;
    for (int64_t e = 0; e < ElementsOf(file.entries()[i]); ++e) {
      const double expected = FloatAt(same->bytes, e);
      difference += SquareOf(FloatAt(values, e) - expected);
      square += SquareOf(expected);
    }
    differences.push_back({file.entries()[i].name, std::sqrt(difference), std::sqrt(square)});
  }
  return differences;
}

WorstTensor WorstOf(const std::vector<TensorDifference>& differences) {
  double square = 0.0;
  for (const TensorDifference& d : differences) square += SquareOf(d.norm);
  const double floor = 1e-3 * std::sqrt(square);
  WorstTensor worst;
  for (const TensorDifference& d : differences) {
    if (d.difference == 0.0) continue;
    double error = d.difference / std::max(d.norm, floor);
    if (std::isnan(error)) error = std::numeric_limits<double>::infinity();
    if (error > worst.error) worst = {d.name, error};
  }
  return worst;
}

}  // namespace ftune
