#include "engine/format/adapter_base.h"

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/folder.h"
#include "base/io_error.h"
#include "base/json_file.h"
#include "base/strings.h"
#include "engine/format/quantized_weights.h"

namespace ftune {

absl::Status WriteAdapterBase(const std::filesystem::path& folder, const std::optional<DType>& quantize) {
  FTUNE_RETURN_IF_ERROR(MakeFolder(folder));
  const std::filesystem::path path = folder / kAdapterBaseFile;
  if (!quantize) {
    std::error_code error;
    std::filesystem::remove(path, error);
    return error ? IoError(path, "remove", error.value()) : absl::OkStatus();
  }
  const nlohmann::json root = {{"quantize", QuantizationName(quantize)}};
  return WriteFileAtomic(path, root.dump(2) + "\n");
}

absl::StatusOr<std::optional<DType>> ReadAdapterBase(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / kAdapterBaseFile;
  if (!Exists(path)) return std::nullopt;
  const std::string file = path.string();
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json root, ReadJsonFile(path));
  if (!root.is_object()) {
    return DataError({.file = file, .found = Excerpt(root), .expected = "a JSON object"});
  }
  FTUNE_ASSIGN_OR_RETURN(const std::string name, RequiredField<std::string>(root, "quantize", file));
  const absl::StatusOr<std::optional<DType>> quantize = ParseQuantization(name);
  if (quantize.ok()) return quantize;
  return DataError({.file = file,
                    .key = "quantize",
                    .found = StrCat("'", name, "'"),
                    .expected = std::string(quantize.status().message())});
}

}  // namespace ftune
