#include "cmd/save_result.h"

#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/folder.h"
#include "engine/format/adapter_base.h"
#include "engine/format/hf_writer.h"
#include "engine/format/lora_files.h"
#include "engine/format/model_tensors.h"
#include "engine/format/ranked_write.h"

namespace ftune {

absl::Status WriteAdapter(const LoadedModel& loaded, std::span<const OutputTensor> tensors,
                          const std::filesystem::path& folder) {
  FTUNE_RETURN_IF_ERROR(WriteAdapterBase(folder, loaded.quantize));
  FTUNE_RETURN_IF_ERROR(
      SaveLora(*loaded.model, *loaded.lora, *loaded.targets, loaded.files, tensors, folder));
  return WriteTokenizerFiles(loaded.files, folder);
}

absl::StatusOr<std::filesystem::path> SaveResult(Backend& backend, LoadedModel& loaded, DType dtype,
                                                 const RunPaths& paths) {
  const std::filesystem::path folder = loaded.lora ? paths.adapter() : paths.model();
  const auto write = [&](std::span<const OutputTensor> tensors) -> absl::Status {
    FTUNE_RETURN_IF_ERROR(RemoveFolder(paths.incomplete()));
    FTUNE_RETURN_IF_ERROR(loaded.lora ? WriteAdapter(loaded, tensors, paths.incomplete())
                                      : WriteHfModel(loaded.files, paths.incomplete(), tensors));
    return ReplaceFolder(paths.incomplete(), folder);
  };
  std::vector<OutputTensor> tensors = loaded.lora
                                          ? AdapterTensors(backend, Stream(), *loaded.model, *loaded.targets)
                                          : ModelTensors(backend, Stream(), *loaded.model, dtype, nullptr);
  if (loaded.shards) {
    FTUNE_ASSIGN_OR_RETURN(tensors, TensorsOfAllStages(loaded.shards->mesh(), std::move(tensors)));
    FTUNE_RETURN_IF_ERROR(WriteOnFirstRank(loaded.shards->mesh().world(), tensors, write));
  } else {
    FTUNE_RETURN_IF_ERROR(write(tensors));
  }
  return folder;
}

}  // namespace ftune
