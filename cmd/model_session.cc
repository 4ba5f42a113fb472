#include "cmd/model_session.h"

#include <sched.h>

#include "base/error.h"
#include "engine/backend/cpu/cpu_backend.h"

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

absl::StatusOr<ModelSession> OpenSession(const std::filesystem::path& model,
                                         const LoadModelOptions& options) {
  ModelSession session;
  session.backend = MakeCpuBackend(CpuCores());
  FTUNE_ASSIGN_OR_RETURN(session.loaded, LoadModel(*session.backend, Stream(), model, options));
  FTUNE_ASSIGN_OR_RETURN(session.tokenizer, LoadTokenizer(TokenizerOf(session.loaded.files)));
  return session;
}

}  // namespace ftune
