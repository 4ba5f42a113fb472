#include "parallel/comm/shm_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace ftune {
namespace {

absl::Status Refused(int error) { return absl::ResourceExhaustedError(std::strerror(error)); }

int64_t WholePages(int64_t bytes) {
  const int64_t page = sysconf(_SC_PAGESIZE);
  return (std::max<int64_t>(bytes, 1) + page - 1) / page * page;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShmMemory>> ShmMemory::Create(int64_t bytes, Descriptor& descriptor) {
  descriptor = Descriptor(memfd_create("ftune", MFD_CLOEXEC));
  if (!descriptor) return Refused(errno);
  // Beyond the limit, ftruncate would raise a signal.
  rlimit limit;
  const int64_t size = WholePages(bytes);
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && static_cast<rlim_t>(size) > limit.rlim_cur) {
    return Refused(EFBIG);
  }
  if (ftruncate(descriptor.get(), size) != 0) return Refused(errno);
  return Map(descriptor, size);
}

absl::StatusOr<std::unique_ptr<ShmMemory>> ShmMemory::Map(const Descriptor& descriptor, int64_t bytes) {
  const int64_t size = WholePages(bytes);
  void* data =
      mmap(nullptr, static_cast<size_t>(size), PROT_READ | PROT_WRITE, MAP_SHARED, descriptor.get(), 0);
  if (data == MAP_FAILED) return Refused(errno);
  return std::unique_ptr<ShmMemory>(new ShmMemory(static_cast<std::byte*>(data), size));
}

ShmMemory::~ShmMemory() { munmap(data_, static_cast<size_t>(bytes_)); }

void ShmMemory::Discard() { madvise(data_, static_cast<size_t>(bytes_), MADV_REMOVE); }

}  // namespace ftune
