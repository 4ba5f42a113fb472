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

// The form of the base that the adapters were trained on, which must be one for all of them.
absl::StatusOr<std::optional<DType>> BaseQuantization(const std::vector<std::filesystem::path>& adapters,
                                                      const std::string& quantize) {
  if (quantize.empty()) {
    std::optional<DType> form;
    for (const std::filesystem::path& folder : adapters) {
      FTUNE_ASSIGN_OR_RETURN(const std::optional<DType> own, ReadAdapterBase(folder));
      if (&folder != &adapters.front() && own != form) {
        return UsageError({.file = folder.string(),
                           .key = kAdapterBaseFile,
                           .message = "the adapters were trained on bases of different forms",
                           .found = std::string(QuantizationName(own)),
                           .expected = std::string(QuantizationName(form)),
                           .hint = "say with --quantize which one to use"});
      }
      form = own;
    }
    return form;
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

absl::StatusOr<ModelSession> OpenSession(const std::filesystem::path& model, LoadModelOptions options,
                                         const std::string& quantize) {
  ModelSession session;
  session.backend = MakeCpuBackend(CpuCores());
  FTUNE_ASSIGN_OR_RETURN(options.quantize, BaseQuantization(options.adapters, quantize));
  FTUNE_ASSIGN_OR_RETURN(session.loaded, LoadModel(*session.backend, Stream(), model, options));
  FTUNE_ASSIGN_OR_RETURN(session.tokenizer, LoadTokenizer(TokenizerOf(session.loaded.files)));
  return session;
}

}  // namespace ftune
