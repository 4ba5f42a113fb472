#include "parallel/comm/single_transport.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/strings.h"

namespace ftune {

absl::Status SingleTransport::Run(const Call& call) {
  FTUNE_RETURN_IF_ERROR(status());
  if (call.out.data != nullptr && call.in.data != nullptr && call.out.data != call.in.data) {
    std::memcpy(call.out.data, call.in.data, static_cast<size_t>(call.out.bytes()));
  }
  return absl::OkStatus();
}

absl::StatusOr<SharedBytes> SingleTransport::Allocate(int64_t bytes) { return AllocatePages(bytes); }

absl::StatusOr<std::unique_ptr<Transport>> SingleTransport::Split(const std::vector<int>&) {
  return std::make_unique<SingleTransport>();
}

void SingleTransport::Abort(const absl::Status& status) {
  const std::lock_guard lock(mutex_);
  status_.Update(status);
}

absl::Status SingleTransport::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

absl::StatusOr<SharedBytes> AllocatePages(int64_t bytes) {
  const auto size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    return UserError(ExitCode::kRankFailed,
                     {.message = StrCat("the system refused ", bytes, " bytes for communication"),
                      .hint = "use fewer ranks on this host, or a smaller model"});
  }
  return SharedBytes{std::shared_ptr<std::byte>(static_cast<std::byte*>(memory),
                                                [size](std::byte* data) { munmap(data, size); }),
                     bytes};
}

}  // namespace ftune
