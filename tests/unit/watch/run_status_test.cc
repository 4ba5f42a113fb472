#include "cmd/watch/run_status.h"

#include <doctest/doctest.h>

#include <string>

#include "cmd/watch/metrics_text.h"

namespace ftune {
namespace {

RunStatus Some() {
  RunStatus status = {.run = "runs/a \"b\"\\", .state = RunState::kRestarting, .attempt = 3, .restarts = 2};
  status.started = 1000.5;
  status.updated = 2000.25;
  status.figures = {.step = 12, .total_steps = 100, .loss = 1.5, .tokens = 4096, .memory = {{"weights", 17}}};
  status.figures.checkpoint = SavedPoint{.step = 10, .path = "checkpoints/step-00000010", .time = 1990.0};
  status.hosts = {{.name = "node1", .ranks = {0, 1}}, {.name = "node2", .state = "lost: silent"}};
  status.ranks = {{.rank = 0, .host = "node1", .pid = 77},
                  {.rank = 1, .host = "node1", .pid = 78, .state = RankState::kStopped}};
  status.ranks[1].pulse = Pulse{.step = 13, .phase = "backward", .micro_batch = 2, .call = "all_reduce #4"};
  status.ranks[1].pulse->compute_seconds = 0.25;
  status.ranks[1].pulse->network_bytes[static_cast<int>(CallKind::kAllGather)] = 99;
  status.leader = {.host = "node1", .identity = "node1/x", .pid = 5, .start = 6, .metrics = "[::1]:9000"};
  status.error = RunError{.message = "rank 1: …", .exit = 5};
  status.exit = 5;
  return status;
}

TEST_CASE("a status is read as it was written") {
  const absl::StatusOr<RunStatus> read = ParseRunStatus(ToText(Some()), "status.json");
  REQUIRE(read.ok());
  CHECK(ToText(*read) == ToText(Some()));
  CHECK(read->ranks[1].state == RankState::kStopped);
  CHECK(read->ranks[1].pulse->network_bytes == Some().ranks[1].pulse->network_bytes);
  CHECK_FALSE(read->ranks[0].pulse);
  CHECK_FALSE(read->figures.eval_loss);
}

TEST_CASE("a file that is torn or something else is an error") {
  const std::string text = ToText(Some());
  for (size_t size = 0; size + 1 < text.size(); size += 7) {
    CHECK_FALSE(ParseRunStatus(text.substr(0, size), "status.json").ok());
  }
  for (const char* other : {"[]", "3", "{\"step\": \"twelve\"}", "{\"ranks\": 3}", "{\"launcher\": []}",
                            "{\"memory\": {\"weights\": \"x\"}}", "{\"state\": 1}"}) {
    CHECK_MESSAGE(!ParseRunStatus(other, "status.json").ok(), other);
  }
  CHECK(ParseRunStatus("{}", "status.json").ok());
}

TEST_CASE("metrics: what is known, with labels that cannot break a line") {
  RunStatus status = Some();
  status.hosts[0].name = "a\"b\\c\nd";
  const std::string text = MetricsText(status, {{.index = 0, .name = "NVIDIA", .memory_total = 8}}, 2000.0);
  const auto has = [&](const std::string& line) { return text.find(line + "\n") != std::string::npos; };
  CHECK(has("# TYPE ftune_loss gauge\nftune_loss 1.5"));
  CHECK(text.find("ftune_eval_loss") == std::string::npos);
  CHECK(has("ftune_checkpoint_age_seconds 10"));
  CHECK(has("ftune_run_state{state=\"restarting\"} 1"));
  CHECK(has("ftune_run_state{state=\"running\"} 0"));
  CHECK(has("ftune_host_up{host=\"a\\\"b\\\\c\\nd\"} 1"));
  CHECK(has("ftune_host_up{host=\"node2\"} 0"));
  CHECK(has("ftune_rank_up{rank=\"1\",host=\"node1\"} 0"));
  CHECK(has("ftune_step_seconds{rank=\"1\",part=\"compute\"} 0.25"));
  CHECK(has("ftune_network_bytes_total{rank=\"1\",operation=\"all_gather\"} 99"));
  CHECK(has("ftune_memory_bytes{rank=\"0\",kind=\"weights\"} 17"));
  CHECK(has("ftune_gpu_memory_bytes{gpu=\"0\",name=\"NVIDIA\"} 8"));
  CHECK(text.find("ftune_gpu_utilization_ratio") == std::string::npos);
}

}  // namespace
}  // namespace ftune
