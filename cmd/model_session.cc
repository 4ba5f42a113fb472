#include "cmd/model_session.h"

#include <sched.h>

#include "base/error.h"
#include "engine/backend/cpu/cpu_backend.h"
#include "engine/format/adapter_base.h"
#include "engine/format/quantized_weights.h"

namespace ftune {

int CpuCores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return 1;
  return CPU_COUNT(&allowed);
}

std::unique_ptr<Backend> MakeCpuBackend(int threads) {
  return std::make_unique<CpuBackend>(CpuOptions{.threads = threads});
}

namespace {

absl::StatusOr<std::optional<DType>> BaseQuantization(const std::optional<std::filesystem::path>& adapter,
                                                      const std::string& quantize) {
  if (quantize.empty()) {
    if (!adapter) return std::nullopt;
    return ReadAdapterBase(*adapter);
  }
  const absl::StatusOr<std::optional<DType>> dtype = ParseQuantization(quantize);
  if (dtype.ok()) return dtype;
  return UsageError({.file = "command line",
                     .key = "--quantize",
                     .found = quantize,
                     .expected = std::string(dtype.status().message())});
}

}  // namespace

void AddQuantizeOption(CLI::App& command, std::string& quantize) {
  command.add_option(
      "--quantize", quantize,
      "The form of the model's linear weights: none, nf4, fp4 or int8; if not given, that which "
      "the adapter was trained on");
}

absl::StatusOr<ModelSession> OpenSession(const std::filesystem::path& model,
                                         const std::optional<std::filesystem::path>& adapter,
                                         int64_t max_length, const std::string& quantize) {
  ModelSession session;
  session.backend = MakeCpuBackend(CpuCores());
  LoadModelOptions options;
  options.max_length = max_length;
  options.lora_folder = adapter;
  FTUNE_ASSIGN_OR_RETURN(options.quantize, BaseQuantization(adapter, quantize));
  FTUNE_ASSIGN_OR_RETURN(session.loaded, LoadModel(*session.backend, Stream(), model, options));
  FTUNE_ASSIGN_OR_RETURN(session.tokenizer, LoadTokenizer(model));
  return session;
}

}  // namespace ftune
