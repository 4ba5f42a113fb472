// How long a plan of many samples takes, and how much memory: plan_bench [SAMPLES [SEQUENCE_LEN [EPOCHS]]]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <string>

#include "data/loader/data_plan.h"

namespace ftune {
namespace {

// A store of which only the lengths are there: 50 to 749 tokens.
class LengthsOnly : public TokenStore {
 public:
  explicit LengthsOnly(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  SampleInfo info(int64_t sample) const override {
    const auto length = static_cast<int64_t>(50 + static_cast<uint64_t>(sample) * 2654435761u % 700);
    return {.length = length, .trained_tokens = length - 1, .row = sample};
  }
  std::span<const StoredToken> tokens(int64_t) const override { return {}; }
  absl::Status VisitDropped(const DroppedVisitor&) const override { return absl::OkStatus(); }

 private:
  int64_t size_;
};

// VmRSS or VmHWM of this process, in MiB.
long Memory(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(key)) return std::atol(line.c_str() + key.size() + 1) / 1024;
  }
  return 0;
}

int Main(int argc, char** argv) {
  const int64_t samples = argc > 1 ? std::atoll(argv[1]) : 10'000'000;
  const int64_t length = argc > 2 ? std::atoll(argv[2]) : 2048;
  const double epochs = argc > 3 ? std::atof(argv[3]) : 1.0;
  auto dataset = std::make_shared<Dataset>();
  dataset->store = std::make_shared<LengthsOnly>(samples);
  dataset->mix = {{}};
  dataset->samples.resize(static_cast<size_t>(samples));
  std::iota(dataset->samples.begin(), dataset->samples.end(), 0);
  std::printf("list of samples: %ld MiB resident\n", Memory("VmRSS"));

  const auto start = std::chrono::steady_clock::now();
  const auto plan = DataPlan::Create(dataset, {.sequence_len = length, .num_epochs = epochs});
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (!plan.ok()) {
    std::fprintf(stderr, "%s\n", std::string(plan.status().message()).c_str());
    return 1;
  }
  std::printf("%lld samples in %lld packs, %.2f %% filled, %lld steps: %.2f s, %ld MiB at most\n",
              static_cast<long long>(samples), static_cast<long long>(plan->epochs()[0].packs),
              100 * plan->epochs()[0].fill(), static_cast<long long>(plan->total_steps()), seconds.count(),
              Memory("VmHWM"));
  return 0;
}

}  // namespace
}  // namespace ftune

int main(int argc, char** argv) { return ftune::Main(argc, argv); }
