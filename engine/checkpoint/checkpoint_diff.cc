#include "engine/checkpoint/checkpoint_diff.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <utility>

#include "base/convert.h"
#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

// What is compared at once.
constexpr int64_t kPieceElements = int64_t{1} << 18;

using TensorKey = std::pair<std::string, std::string>;  // state, name: values sort first
using TensorMap = std::map<TensorKey, const CheckpointTensor*>;

TensorMap TensorsOf(const Manifest& manifest) {
  TensorMap all;
  for (const auto& [name, tensor] : manifest.values) all[{"", name}] = &tensor;
  for (const auto& [name, states] : manifest.optimizer) {
    for (const auto& [state, tensor] : states) all[{state, name}] = &tensor;
  }
  return all;
}

std::string NameOf(const TensorKey& key) {
  return key.first.empty() ? key.second : StrCat(key.second, ": ", key.first);
}

template <class T>
void Widen(const std::byte* bytes, std::vector<double>& numbers) {
  for (size_t i = 0; i < numbers.size(); ++i) {
    T value;
    std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
    numbers[i] = static_cast<double>(value);
  }
}

void ToNumbers(DType dtype, const std::byte* bytes, std::vector<double>& numbers) {
  switch (dtype) {
    case DType::kF64:
      return Widen<double>(bytes, numbers);
    case DType::kI8:
      return Widen<int8_t>(bytes, numbers);
    case DType::kU8:
    case DType::kBool:
      return Widen<uint8_t>(bytes, numbers);
    case DType::kI16:
      return Widen<int16_t>(bytes, numbers);
    case DType::kU16:
      return Widen<uint16_t>(bytes, numbers);
    case DType::kI32:
      return Widen<int32_t>(bytes, numbers);
    case DType::kU32:
      return Widen<uint32_t>(bytes, numbers);
    case DType::kI64:
      return Widen<int64_t>(bytes, numbers);
    case DType::kU64:
      return Widen<uint64_t>(bytes, numbers);
    default: {
      std::vector<float> narrow(numbers.size());
      ConvertToF32(dtype, bytes, std::ssize(narrow), narrow.data());
      std::copy(narrow.begin(), narrow.end(), numbers.begin());
    }
  }
}

// Whole rows of the first dimension.
class PieceReader {
 public:
  PieceReader(CheckpointReader& reader, const CheckpointTensor& tensor) : reader_(reader), tensor_(tensor) {}

  absl::Status Read(const Region& piece) {
    bytes.resize(static_cast<size_t>(BytesFor(tensor_.dtype, piece.elements())));
    numbers.resize(static_cast<size_t>(piece.elements()));
    FTUNE_RETURN_IF_ERROR(reader_.Read(tensor_, piece, bytes.data()));
    ToNumbers(tensor_.dtype, bytes.data(), numbers);
    return absl::OkStatus();
  }

  std::vector<std::byte> bytes;
  std::vector<double> numbers;

 private:
  CheckpointReader& reader_;
  const CheckpointTensor& tensor_;
};

void AddDifference(double a, double b, SavedDifference& difference) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return;
  ++difference.different;
  if (!std::isfinite(a) || !std::isfinite(b)) {
    ++difference.not_finite;
    return;
  }
  const double apart = std::abs(a - b);
  difference.max_absolute = std::max(difference.max_absolute, apart);
  difference.max_relative = std::max(difference.max_relative, apart / std::max(std::abs(a), std::abs(b)));
}

absl::Status Compare(PieceReader a, PieceReader b, const CheckpointTensor& tensor, bool same_type,
                     SavedDifference& difference) {
  Region piece = WholeOf(tensor.shape);
  difference.elements = piece.elements();
  if (difference.elements == 0) return absl::OkStatus();
  const int64_t rows = tensor.shape[0], columns = difference.elements / rows;
  const int64_t at_once = std::clamp<int64_t>(kPieceElements / columns, 1, rows);
  for (int64_t row = 0; row < rows; row += at_once) {
    piece.begin[0] = row;
    piece.size[0] = std::min(at_once, rows - row);
    FTUNE_RETURN_IF_ERROR(a.Read(piece));
    FTUNE_RETURN_IF_ERROR(b.Read(piece));
    if (same_type && a.bytes == b.bytes) continue;
    for (size_t i = 0; i < a.numbers.size(); ++i) AddDifference(a.numbers[i], b.numbers[i], difference);
  }
  return absl::OkStatus();
}

}  // namespace

bool CheckpointDifference::equal() const {
  return only_in_first.empty() && only_in_second.empty() &&
         std::all_of(tensors.begin(), tensors.end(), [](const SavedDifference& tensor) {
           return tensor.different == 0 && tensor.why_not_compared.empty();
         });
}

absl::StatusOr<CheckpointDifference> CompareCheckpoints(CheckpointReader& first, CheckpointReader& second) {
  const TensorMap a = TensorsOf(first.manifest()), b = TensorsOf(second.manifest());
  CheckpointDifference result;
  for (const auto& [key, tensor] : b) {
    if (!a.contains(key)) result.only_in_second.push_back(NameOf(key));
  }
  for (const auto& [key, tensor] : a) {
    const auto other = b.find(key);
    if (other == b.end()) {
      result.only_in_first.push_back(NameOf(key));
      continue;
    }
    SavedDifference& difference = result.tensors.emplace_back();
    difference.name = key.second;
    difference.state = key.first;
    if (tensor->shape != other->second->shape) {
      difference.why_not_compared = StrCat("shapes [", StrJoin(tensor->shape, ", "), "] and [",
                                           StrJoin(other->second->shape, ", "), "]");
      continue;
    }
    const bool same_type = tensor->dtype == other->second->dtype;
    FTUNE_RETURN_IF_ERROR(Compare(PieceReader(first, *tensor), PieceReader(second, *other->second), *tensor,
                                  same_type, difference));
  }
  return result;
}

}  // namespace ftune
