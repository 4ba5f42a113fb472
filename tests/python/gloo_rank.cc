// One rank of a group over gloo, for test_gloo_hosts.py: checks all collectives, or sums until something goes
// wrong. gloo_rank (check | sum) RANK RANKS FOLDER ADDRESS. What went wrong is printed. Exit codes are those
// of ftune; 1 where a collective gave something else than it should.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/error.h"
#include "parallel/comm/gloo_transport.h"
#include "tests/unit/parallel/folder_store.h"
#include "tests/unit/parallel/transport_checks.h"

namespace ftune {
namespace {

int Report(const absl::Status& status) {
  std::printf("%s\n", std::string(status.message()).c_str());
  return ExitCodeOf(status);
}

int Main(const std::string& what, int rank, int ranks, const std::string& folder,
         const std::string& address) {
  absl::StatusOr<std::unique_ptr<Transport>> transport =
      JoinGloo({.rank = rank,
                .size = ranks,
                .store = std::make_shared<FolderStore>(folder),
                .prefix = "world",
                .address = address,
                .timeout = absl::Seconds(30)});
  if (!transport.ok()) return Report(transport.status());
  (*transport)->set_timeout(absl::Seconds(what == "sum" ? 2 : 30));
  Communicator comm(*std::move(transport));
  if (what == "check") {
    const std::string failures = TransportChecks(comm, {comm.size()}).Run();
    std::printf("%s", failures.c_str());
    return failures.empty() ? 0 : 1;
  }
  std::vector<float> x(100'000, 1.0f);
  for (int step = 0;; ++step) {
    const absl::Status status = comm.Run(Call::AllReduce(
        {reinterpret_cast<std::byte*>(x.data()), static_cast<int64_t>(x.size()), DType::kF32, {}}));
    if (!status.ok()) return Report(status);
    if (step == 10) FolderStore(folder).Set(StrCat("summing/", rank), "").IgnoreError();
  }
}

}  // namespace
}  // namespace ftune

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  return ftune::Main(argv[1], std::atoi(argv[2]), std::atoi(argv[3]), argv[4], argv[5]);
}
