#include "cmd/save_result.h"

#include "base/error.h"
#include "base/folder.h"
#include "engine/format/adapter_base.h"
#include "engine/format/hf_writer.h"
#include "engine/format/lora_files.h"
#include "engine/format/model_tensors.h"

namespace ftune {
namespace {

absl::Status WriteAdapter(Backend& backend, LoadedModel& loaded, const std::filesystem::path& folder) {
  FTUNE_RETURN_IF_ERROR(WriteAdapterBase(folder, loaded.quantize));
  FTUNE_RETURN_IF_ERROR(
      SaveLora(backend, Stream(), *loaded.model, *loaded.lora, *loaded.targets, loaded.files, folder));
  return WriteTokenizerFiles(loaded.files, folder);
}

}  // namespace

absl::StatusOr<std::filesystem::path> SaveResult(Backend& backend, LoadedModel& loaded, DType dtype,
                                                 const RunPaths& paths) {
  const std::filesystem::path folder = loaded.lora ? paths.adapter() : paths.model();
  FTUNE_RETURN_IF_ERROR(RemoveFolder(paths.incomplete()));
  FTUNE_RETURN_IF_ERROR(loaded.lora
                            ? WriteAdapter(backend, loaded, paths.incomplete())
                            : WriteHfModel(loaded.files, paths.incomplete(),
                                           ModelTensors(backend, Stream(), *loaded.model, dtype, nullptr)));
  FTUNE_RETURN_IF_ERROR(ReplaceFolder(paths.incomplete(), folder));
  return folder;
}

}  // namespace ftune
