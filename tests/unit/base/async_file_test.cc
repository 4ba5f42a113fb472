// Files that are read and written beside the computation: values, order of use, and every kind of failure.
#include "base/async_file.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <limits>

#include "base/error.h"
#include "base/random.h"
#include "base/strings.h"
#include "tests/unit/base/temp_folder.h"

namespace ftune {
namespace {

constexpr int64_t kBlock = ScratchFile::kAlignment;
constexpr int64_t kMiB = int64_t{1} << 20;

struct Free {
  void operator()(std::byte* p) const { std::free(p); }
};

// Aligned memory with values of its own.
class Buffer {
 public:
  explicit Buffer(int64_t bytes, uint64_t seed = 0)
      : data_(static_cast<std::byte*>(std::aligned_alloc(kBlock, bytes))), bytes_(bytes) {
    RandomSequence random(seed, 0);
    for (std::byte& b : span()) b = static_cast<std::byte>(seed == 0 ? 0 : random.Below(256));
  }
  std::span<std::byte> span() const { return {data_.get(), static_cast<size_t>(bytes_)}; }
  bool operator==(const Buffer& other) const {
    return std::equal(span().begin(), span().end(), other.span().begin(), other.span().end());
  }

 private:
  std::unique_ptr<std::byte, Free> data_;
  int64_t bytes_;
};

std::unique_ptr<AsyncFile> Open(const std::filesystem::path& folder, int64_t bytes, bool use_uring) {
  auto file = AsyncFile::Create(
      {.folder = folder, .bytes = bytes, .content = "the test's bytes", .use_uring = use_uring});
  REQUIRE_MESSAGE(file.ok(), std::string(file.status().message()));
  return *std::move(file);
}

// The limit on the size of files, for as long as one lives; without the signal that would end the process.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(int64_t bytes) {
    old_action_ = signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_limit_);
    rlimit limit = old_limit_;
    limit.rlim_cur = static_cast<rlim_t>(bytes);
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_limit_);
    signal(SIGXFSZ, old_action_);
  }

 private:
  rlimit old_limit_;
  void (*old_action_)(int);
};

// The path by which an open file without a name can be reached.
std::filesystem::path OpenFileIn(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    const auto target = std::filesystem::read_symlink(entry.path(), error);
    if (!error && Contains(target.string(), folder.string())) return entry.path();
  }
  return {};
}

TEST_CASE("what is written is read, however many requests are on their way") {
  for (const bool use_uring : {true, false}) {
    CAPTURE(use_uring);
    TempFolder folder;
    constexpr int kRequests = 20;  // of several pieces each: more than the queue is deep
    constexpr int64_t kBytes = 3 * kMiB + kBlock;
    const auto file = Open(folder.path(), kRequests * kBytes, use_uring);
    std::vector<Buffer> written, read;
    std::vector<AsyncFile::Ticket> tickets;
    for (int i = 0; i < kRequests; ++i) written.emplace_back(kBytes, i + 1);
    for (int i = 0; i < kRequests; ++i) tickets.push_back(file->Write(written[i].span(), i * kBytes));
    for (const auto ticket : tickets) REQUIRE(file->Wait(ticket).ok());
    tickets.clear();
    for (int i = 0; i < kRequests; ++i) read.emplace_back(kBytes);
    for (int i = 0; i < kRequests; ++i) tickets.push_back(file->Read(read[i].span(), i * kBytes));
    for (int i = kRequests; i-- > 0;) REQUIRE(file->Wait(tickets[i]).ok());  // in any order
    for (int i = 0; i < kRequests; ++i) CHECK(read[i] == written[i]);
  }
}

TEST_CASE("a new file is zeros and has no name") {
  TempFolder folder;
  const auto file = Open(folder.path(), 2 * kMiB, true);
  Buffer read(2 * kMiB, 9);
  REQUIRE(file->Wait(file->Read(read.span(), 0)).ok());
  CHECK(read == Buffer(2 * kMiB));
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("Done looks without waiting and becomes true") {
  for (const bool use_uring : {true, false}) {
    TempFolder folder;
    const auto file = Open(folder.path(), 32 * kMiB, use_uring);
    const Buffer written(32 * kMiB, 0);
    const AsyncFile::Ticket ticket = file->Write(written.span(), 0);
    while (!file->Done(ticket)) usleep(1000);
    CHECK(file->Wait(ticket).ok());
  }
}

TEST_CASE("a file with requests on their way can go away") {
  for (const bool use_uring : {true, false}) {
    TempFolder folder;
    const Buffer buffer(16 * kMiB, 0);
    const auto file = Open(folder.path(), 16 * kMiB, use_uring);
    file->Write(buffer.span(), 0);
  }
}

TEST_CASE("an error of a write says where and what to do, and spares the other requests") {
  for (const bool use_uring : {true, false}) {
    CAPTURE(use_uring);
    TempFolder folder;
    const auto file = Open(folder.path(), 8 * kMiB, use_uring);
    const Buffer first(kMiB, 1), beyond(2 * kMiB, 2);
    {
      // A write that the limit cuts comes short; it is continued, and then refused.
      const FileSizeLimit limit(4 * kMiB + 5 * kBlock);
      const auto good = file->Write(first.span(), kMiB);
      const auto bad = file->Write(beyond.span(), 4 * kMiB);
      CHECK(NotSaid(file->Wait(bad), folder.path().string(), "write ", " bytes at ", "the test's bytes",
                    "large", "ulimit -f") == "");
      CHECK(file->Wait(good).ok());
    }
    Buffer read(kMiB), start(5 * kBlock);
    REQUIRE(file->Wait(file->Read(read.span(), kMiB)).ok());
    CHECK(read == first);
    REQUIRE(file->Wait(file->Read(start.span(), 4 * kMiB)).ok());
    CHECK(std::equal(start.span().begin(), start.span().end(), beyond.span().begin()));
    // It can be used again.
    CHECK(file->Wait(file->Write(beyond.span(), 4 * kMiB)).ok());
  }
}

TEST_CASE("the end of a file that was cut is an error, not zeros") {
  for (const bool use_uring : {true, false}) {
    CAPTURE(use_uring);
    TempFolder folder;
    const auto file = Open(folder.path(), 4 * kMiB, use_uring);
    const std::filesystem::path path = OpenFileIn(folder.path());
    REQUIRE(truncate(path.c_str(), 2 * kMiB + kBlock) == 0);
    Buffer read(kMiB);
    CHECK(file->Wait(file->Read(read.span(), 0)).ok());
    const absl::Status status = file->Wait(file->Read(read.span(), 2 * kMiB));
    CHECK(NotSaid(status, "read ", StrCat("at ", 2 * kMiB + kBlock), "check the disk") == "");
    CHECK(ExitCodeOf(status) == 4);
  }
}

TEST_CASE("what is not aligned is refused") {
  TempFolder folder;
  const auto file = Open(folder.path(), kMiB, true);
  const Buffer buffer(8 * kBlock);
  CHECK(NotSaid(file->Wait(file->Read(buffer.span().subspan(512, kBlock), 0)), "Invalid") == "");
  CHECK(NotSaid(file->Wait(file->Read(buffer.span().first(100), 0)), "Invalid") == "");
  CHECK(NotSaid(file->Wait(file->Write(buffer.span(), 512)), "Invalid", "at 512") == "");
  CHECK(file->Wait(file->Write(buffer.span(), kBlock)).ok());
}

TEST_CASE("space that cannot be had is refused at the start") {
  TempFolder folder;
  const auto create = [&](const std::filesystem::path& where, int64_t bytes) {
    return AsyncFile::Create({.folder = where, .bytes = bytes, .content = "the test's bytes"}).status();
  };
  CHECK(NotSaid(create(folder.path(), int64_t{1} << 42), folder.path().string(), "reserve 4096.00 GiB",
                "the test's bytes", "are free") == "");
  {
    const FileSizeLimit limit(kMiB);
    CHECK(NotSaid(create(folder.path(), 2 * kMiB), "reserve", "ulimit -f") == "");
  }
  CHECK(NotSaid(create(folder / "missing", kMiB), "missing", "create a file for the test's bytes") == "");
  CHECK(std::filesystem::is_empty(folder.path()));
}

TEST_CASE("how it is done is told") {
  TempFolder folder;
  CHECK(Contains(Open(folder.path(), kMiB, false)->method(), "by a helper thread"));
  CHECK(Contains(Open(folder.path(), kMiB, true)->method(), "io_uring"));
}

}  // namespace
}  // namespace ftune
