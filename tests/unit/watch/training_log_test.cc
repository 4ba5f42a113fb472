#include "cmd/watch/training_log.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/scratch_folder.h"
#include "base/strings.h"

namespace ftune {
namespace {

class Written {
 public:
  Written() : folder_(*ScratchFolder::Create()) {}
  std::filesystem::path path() const { return folder_.path() / "log.jsonl"; }

  void Start(int64_t step, int attempt) {
    Add("start", step, attempt, ", \"ranks\": 2, \"total_steps\": 20");
  }
  void Train(int64_t step, int attempt) {
    Add("train", step, attempt,
        StrCat(", \"loss\": ", 10.0 - 0.1 * step,
               ", \"tokens\": 100, \"lr\": 0.5, \"step_seconds\": 3.0, "
               "\"memory\": {\"weights\": 7}, \"memory_rank\": 1"));
  }
  void Save(int64_t step, int attempt) {
    Add("save", step, attempt, StrCat(", \"path\": \"c/", step, "\", \"bytes\": 1"));
  }
  void Add(const std::string& event, int64_t step, int attempt, const std::string& more) {
    std::ofstream(path(), std::ios::app)
        << StrCat("{\"event\": \"", event, "\", \"time\": ", time_, ", \"step\": ", step,
                  ", \"attempt\": ", attempt, more, "}\n");
    time_ += 2.0;
  }

 private:
  ScratchFolder folder_;
  double time_ = 1000.0;
};

TEST_CASE("figures of a run") {
  Written log;
  TrainingLog read(log.path(), LogTail::From::kBegin);
  CHECK_FALSE(read.Take());
  log.Start(0, 1);
  CHECK(read.Take());
  CHECK(read.begun_attempt() == 1);
  CHECK(read.figures().total_steps == 20);
  CHECK_FALSE(read.figures().loss);
  for (int step = 1; step <= 5; ++step) log.Train(step, 1);
  log.Save(4, 1);
  log.Add("eval", 5, 1, ", \"eval_loss\": 3.5");
  read.Take();
  const TrainingFigures& figures = read.figures();
  CHECK(figures.step == 5);
  CHECK(figures.loss == doctest::Approx(9.5));
  CHECK(figures.learning_rate == 0.5);
  CHECK(figures.tokens == 500);
  CHECK(figures.eval_loss == 3.5);
  CHECK(figures.memory.at("weights") == 7);
  CHECK(figures.memory_rank == 1);
  REQUIRE(figures.checkpoint);
  CHECK(figures.checkpoint->step == 4);
  CHECK(figures.checkpoint->path == "c/4");
  // By the clock of the lines, two seconds a step, and not by step_seconds.
  CHECK(*figures.seconds_left == doctest::Approx(15 * 2.0));
  CHECK_FALSE(read.exit());
  log.Add("end", 5, 1, ", \"exit\": 75");
  read.Take();
  CHECK(read.exit() == 75);
}

TEST_CASE("a run that goes back") {
  Written log;
  log.Start(0, 1);
  for (int step = 1; step <= 9; ++step) {
    log.Train(step, 1);
    if (step == 3) log.Add("eval", 3, 1, ", \"eval_loss\": 3.0");
    if (step == 7) log.Add("eval", 7, 1, ", \"eval_loss\": 2.0");
    if (step % 4 == 0) log.Save(step, 1);
  }
  TrainingLog read(log.path(), LogTail::From::kBegin);
  read.Take();
  CHECK(read.figures().checkpoint->step == 8);
  CHECK(read.figures().eval_loss == 2.0);
  // The checkpoint of step 8 was not whole.
  log.Add("restart", 4, 2, ", \"cause\": \"a rank was killed\"");
  read.Take();
  CHECK(read.restarts() == 1);
  CHECK(read.attempt() == 2);
  CHECK(read.begun_attempt() == 1);
  CHECK(read.figures().step == 4);
  CHECK_FALSE(read.figures().loss);
  CHECK(read.figures().eval_loss == 3.0);
  CHECK(read.figures().tokens == 400);
  CHECK(read.figures().checkpoint->step == 4);
  log.Start(4, 2);
  log.Train(5, 2);
  read.Take();
  CHECK(read.begun_attempt() == 2);
  CHECK(read.figures().step == 5);
  CHECK(read.figures().tokens == 500);
  CHECK(read.figures().loss == doctest::Approx(9.5));
}

TEST_CASE("a run that begins anew in another file") {
  Written log;
  log.Start(0, 3);
  log.Train(1, 3);
  log.Save(1, 3);
  TrainingLog read(log.path(), LogTail::From::kBegin);
  read.Take();
  std::filesystem::remove(log.path());
  CHECK(read.Take());
  CHECK(read.figures().step == 0);
  CHECK_FALSE(read.figures().checkpoint);
  CHECK(read.begun_attempt() == 0);
  log.Start(0, 1);
  read.Take();
  CHECK(read.begun_attempt() == 1);
  CHECK(read.figures().tokens == 0);
}

TEST_CASE("lines that are left out, results and checkpoints that could not be written") {
  Written log;
  log.Start(0, 1);
  log.Train(10, 1);  // log.every is 10
  log.Train(20, 1);
  log.Save(10, 1);
  log.Add("save", 20, 1, ", \"path\": \"c/20\", \"error\": \"No space left on device\"");
  log.Add("save", 20, 1, ", \"path\": \"model\"");
  log.Add("train", 21, 1, ", \"loss\": null, \"tokens\": \"many\"");
  TrainingLog read(log.path(), LogTail::From::kBegin);
  read.Take();
  CHECK(read.figures().tokens == 2000);
  CHECK(read.figures().checkpoint->step == 10);
  CHECK_FALSE(read.figures().loss);
}

}  // namespace
}  // namespace ftune
