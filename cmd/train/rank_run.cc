#include "cmd/train/rank_run.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/error.h"
#include "base/strings.h"
#include "cmd/lr_range_test.h"
#include "cmd/model_session.h"
#include "cmd/recipe/paths.h"
#include "cmd/recipe/resume.h"
#include "cmd/report/hub_progress.h"
#include "cmd/run_observer.h"
#include "cmd/train/log_sinks.h"
#include "cmd/train/memory_check.h"
#include "cmd/train/rank_parts.h"
#include "cmd/train/resume_run.h"
#include "cmd/train/run_checkpoints.h"
#include "cmd/train/run_inputs.h"
#include "cmd/train/same_files.h"
#include "cmd/train/train_checks.h"
#include "cmd/train/verify_json.h"
#include "engine/checkpoint/checkpoint_loader.h"
#include "engine/checkpoint/choose_checkpoint.h"
#include "engine/checkpoint/shared_reader.h"
#include "engine/checkpoint/superseded.h"
#include "engine/format/peft.h"
#include "engine/format/quantized_weights.h"
#include "engine/model/tensor_split.h"
#include "engine/train/run_end.h"
#include "engine/train/trainer.h"
#include "engine/verify/verify_run.h"
#include "parallel/launch/host_identity.h"
#include "parallel/launch/join_world.h"
#include "parallel/launch/rank_process.h"
#include "parallel/launch/slurm/task_watch.h"

namespace ftune {
namespace {

constexpr int kMostRanksInTable = 64;

bool Leads(const RankStart& start) { return !start.environment || start.environment->rank == 0; }

RunPaths PathsOf(const TrainOptions& options, const std::string& output_dir) {
  const std::string& mirror = options.orders.folder;
  return mirror.empty() ? RunPaths(output_dir) : RunPaths(mirror, output_dir);
}

Verbosity VerbosityOf(const Invocation& invocation, const RankStart& start) {
  return Leads(start) ? invocation.verbosity() : Verbosity::kQuiet;
}

struct ParameterCounts {
  int64_t total = 0;
  int64_t trainable = 0;
};

// Of the whole model, of which the ranks of the pipeline have parts.
absl::StatusOr<ParameterCounts> CountParameters(const Model& model, Mesh& mesh) {
  ParameterCounts counts;
  for (const auto& block : model.blocks()) {
    if (block->copy()) continue;
    for (const Parameter& p : std::as_const(*block).store().parameters()) {
      counts.total += p.global_size();
      if (p.trainable) counts.trainable += p.global_size();
    }
  }
  Communicator& pipeline = mesh.axis(MeshAxis::kPipeline);
  FTUNE_ASSIGN_OR_RETURN(counts.total, pipeline.AllReduce(counts.total));
  FTUNE_ASSIGN_OR_RETURN(counts.trainable, pipeline.AllReduce(counts.trainable));
  return counts;
}

nlohmann::ordered_json MeshFacts(const MeshShape& mesh) {
  return {
      {"tensor", mesh.tensor}, {"context", mesh.context}, {"data", mesh.data}, {"pipeline", mesh.pipeline}};
}

nlohmann::ordered_json StartFacts(const ParameterCounts& parameters, int64_t total_steps,
                                  const MemoryUse& memory, const MeshShape& mesh) {
  return {{"parameters", parameters.total}, {"trainable_parameters", parameters.trainable},
          {"total_steps", total_steps},     {"memory", ToJson(memory)},
          {"ranks", mesh.ranks()},          {"mesh", MeshFacts(mesh)}};
}

// With the rank's name, where it is one of several: what does not fit here may fit elsewhere.
absl::Status NameRank(const absl::Status& status, const RankStart& start) {
  std::optional<ErrorDetail> detail = DetailOf(status);
  const bool does_not_fit = ExitCodeOf(status) == static_cast<int>(ExitCode::kDoesNotFit);
  if (!does_not_fit || !detail || !detail->key.empty()) return status;
  detail->key = start.Name();
  return UserError(ExitCode::kDoesNotFit, *std::move(detail));
}

// A checkpoint of other weights with the same names may have been copied here.
absl::Status CheckModelOf(const Manifest& manifest, const std::vector<SharedInput>& inputs,
                          const std::filesystem::path& folder) {
  const std::string model = FingerprintOfModel(inputs);
  if (manifest.model.empty() || manifest.model == model) return absl::OkStatus();
  return DataError({.file = (folder / kManifestName).string(),
                    .key = "model",
                    .message = "this checkpoint is of a run of another model",
                    .found = manifest.model,
                    .expected = model,
                    .hint = "remove it, or name another one with --step"});
}

// The recipe as it must be on all ranks: their hosts may have other numbers of cores.
std::string CommonRecipe(Recipe recipe) {
  recipe.launch.threads.reset();
  recipe.launch.ranks_per_host.reset();
  return ToYaml(recipe);
}

}  // namespace

RankRun::RankRun(const TrainOptions& options, const Invocation& invocation, const RankStart& start,
                 LoadedRecipe loaded)
    : options_(options),
      json_(invocation.json),
      start_(start),
      loaded_(std::move(loaded)),
      progress_(stderr, VerbosityOf(invocation, start), start.style),
      hub_(HubProgress(VerbosityOf(invocation, start))),
      paths_(PathsOf(options_, *loaded_.recipe.output_dir)) {}

absl::StatusOr<CommandResult> RankRun::Run() {
  absl::StatusOr<CommandResult> result = RunGuarded([this] { return RunRecipe(); }, start_.Name());
  if (!result.ok()) {
    result = NameRank(loaded_.Placed(std::move(result).status()), start_);
    // The others shall not wait for this one.
    if (mesh_) mesh_->world().Abort(result.status());
  }
  if (watch_) watch_->End(result);
  return result;
}

absl::Status RankRun::BeginPulse() {
  FTUNE_ASSIGN_OR_RETURN(PulsePage page,
                         start_.supervised ? PulsePage::Map(kPulseDescriptor) : PulsePage::Create());
  pulse_ = std::make_unique<PulseWriter>(std::move(page));
  timeline_.set_listener(pulse_.get());
  return absl::OkStatus();
}

absl::StatusOr<CommandResult> RankRun::RunRecipe() {
  FTUNE_RETURN_IF_ERROR(BeginPulse());
  const TimeScope start = Phase("start");
  FTUNE_RETURN_IF_ERROR(JoinMesh());
  if (leads() && !start_.supervised && !options_.lr_range_test && !options_.verify) {
    watch_.emplace(paths(), RunWatch::Leader::kRank);
    FTUNE_RETURN_IF_ERROR(watch_->Serve(loaded_, progress_));
  }
  FTUNE_RETURN_IF_ERROR(TakeUpRun());
  FTUNE_RETURN_IF_ERROR(InTurn([this] { return FindModel(); }));
  if (!start_.environment && !options_.resume && !options_.verify) {
    FTUNE_RETURN_IF_ERROR(CheckFitsHost(options_, loaded_, model_plan_, progress_));
  }
  // Before anything is made of them: ranks with other models would wait for each other in other calls.
  if (own_files_ || leads()) {
    FTUNE_ASSIGN_OR_RETURN(inputs_, ModelInputs(recipe(), model_plan_));
  }
  if (own_files_) FTUNE_RETURN_IF_ERROR(CheckSameInputs(mesh_->world(), inputs_));
  if (leads() && options_.resume && options_.resume->init) FTUNE_RETURN_IF_ERROR(KeepInitInputs());
  if (leads() && !folder_) FTUNE_RETURN_IF_ERROR(TakeFolder());
  FTUNE_RETURN_IF_ERROR(InTurn([this] { return PrepareData(); }));
  if (own_files_ || leads()) {
    const ScheduleSource schedule = pipeline_plan_ ? pipeline_plan_->source : ScheduleSource();
    const std::vector<SharedInput> of_data = DataInputs(recipe(), data_->run(), schedule);
    if (own_files_) FTUNE_RETURN_IF_ERROR(CheckSameInputs(mesh_->world(), of_data));
    inputs_.insert(inputs_.end(), of_data.begin(), of_data.end());
  }
  // A pipeline's stages are planned already, of a schedule's file that is read once.
  if (!pipeline_plan_) FTUNE_RETURN_IF_ERROR(CheckModelSplits(recipe(), model_plan_));
  if (leads() && options_.resume) FTUNE_RETURN_IF_ERROR(CheckInputs(recipe(), inputs_, paths().inputs()));
  FTUNE_RETURN_IF_ERROR(CheckKeepsSources(paths(), model_plan_));
  stop_.emplace(/*announces=*/leads() && !options_.verify);  // before the device starts its threads
  FTUNE_RETURN_IF_ERROR(PrepareModel());
  FTUNE_RETURN_IF_ERROR(TakeMasters());
  if (options_.lr_range_test) return TestLearningRates();
  if (options_.verify) return Verify();
  return Train();
}

absl::Status RankRun::JoinMesh() {
  const TimeScope time = Phase("meet the others");
  const LaunchSection& launch = recipe().launch;
  const auto seconds = [](double value) { return absl::Seconds(value); };
  World world{.communicator = MakeSingleCommunicator(), .host_of_rank = {0}};
  if (start_.environment) {
    const TaskWatch watch(start_.slurm, *start_.environment);
    FTUNE_ASSIGN_OR_RETURN(world, JoinWorld({.environment = *start_.environment,
                                             .start_timeout = seconds(launch.start_timeout),
                                             .heartbeat_timeout = seconds(launch.heartbeat_timeout),
                                             .recipe = CommonRecipe(recipe())}));
  }
  std::vector<CallObserver*> observers = {pulse_.get()};
  if (recipe().log.trace_step) observers.push_back(&call_timeline_);
  world.communicator->set_observers(std::move(observers));
  FTUNE_ASSIGN_OR_RETURN(mesh_, Mesh::Create(ToMeshShape(recipe().parallel), std::move(world.communicator)));
  const std::vector<int>& hosts = world.host_of_rank;
  const bool one_host = std::all_of(hosts.begin(), hosts.end(), [](int host) { return host == 0; });
  own_files_ = mesh_->shape().ranks() > 1 && !(start_.supervised && one_host);
  SetTimeout(launch.start_timeout);
  if (mesh_->shape().ranks() > 1) DescribeMesh();
  if (recipe().parallel.zero > 0 && mesh_->shape().data == 1) {
    progress_.Say("parallel.zero has no effect with one rank of parallel.data");
  }
  if (recipe().parallel.compression != CompressionName::kNone && mesh_->shape().data == 1) {
    progress_.Say("parallel.compression has no effect with one rank of parallel.data");
  }
  return absl::OkStatus();
}

void RankRun::SetTimeout(double seconds) {
  timeout_ = seconds;
  mesh_->set_timeout(absl::Seconds(seconds));
}

void RankRun::DescribeMesh() {
  const MeshShape& shape = mesh_->shape();
  progress_.Say(StrCat("mesh: ", shape.ranks(), " ranks of ", *recipe().launch.threads,
                       *recipe().launch.threads == 1 ? " thread, " : " threads, ", shape.Describe()));
  if (shape.ranks() <= kMostRanksInTable) {
    progress_.Say(shape.Table(static_cast<int>(*recipe().launch.ranks_per_host)));
  }
}

void RankRun::WarnOfUnevenShares() {
  const int tensor = mesh_->shape().tensor;
  const TensorShares largest = LargestTensorShares(model_.model->config(), tensor);
  if (largest.heads == 1.0 && largest.intermediate == 1.0) return;
  progress_.Say(
      absl::StrFormat("parallel.tensor: %d ranks share this model unevenly, and wait for the one with the "
                      "most: it has %.0f %% "
                      "more of the attention heads than the mean, and %.1f %% more of the intermediate size",
                      tensor, 100.0 * (largest.heads - 1.0), 100.0 * (largest.intermediate - 1.0)));
}

absl::Status RankRun::InTurn(const std::function<absl::Status()>& work) {
  const bool first = !start_.environment || start_.environment->local_rank == 0;
  if (first) FTUNE_RETURN_IF_ERROR(work());
  FTUNE_RETURN_IF_ERROR(mesh_->world().Run(Call::Barrier()));
  return first ? absl::OkStatus() : work();
}

absl::Status RankRun::TakeUpRun() {
  if (leads() && options_.resume) FTUNE_RETURN_IF_ERROR(TakeFolder());
  const bool may_resume = !options_.run.empty() || options_.resume_if_begun;
  return may_resume ? ShareResumePoint(mesh_->world(), paths(), options_.resume) : absl::OkStatus();
}

absl::Status RankRun::KeepInitInputs() {
  FTUNE_ASSIGN_OR_RETURN(const std::vector<SharedInput> then, ReadInputs(paths().inputs()));
  std::copy_if(then.begin(), then.end(), std::back_inserter(inputs_),
               [](const SharedInput& input) { return input.key == "model.init_from"; });
  return absl::OkStatus();
}

absl::Status RankRun::TakeFolder() {
  if (start_.supervised) {
    folder_.emplace(RunFolder::Adopt(paths().folder, options_.orders.attempt));
    options_.resume.reset();
    if (!options_.orders.resume) return absl::OkStatus();
    options_.resume = ResumePointOf(paths(), *options_.orders.resume);
    return FindInitInCheckpoint(loaded_, paths(), *options_.resume);
  }
  if (options_.resume) {
    FTUNE_ASSIGN_OR_RETURN(TakenRun taken, TakeRun(loaded_, options_, progress_));
    folder_.emplace(std::move(taken.folder));
    options_.resume = std::move(taken.point);
  } else {
    FTUNE_ASSIGN_OR_RETURN(RunFolder created,
                           RunFolder::Create(paths().folder, options_.force, options_.least_attempt));
    folder_.emplace(std::move(created));
  }
  BeginWatch();
  return absl::OkStatus();
}

void RankRun::BeginWatch() {
  if (!watch_) return;
  const std::string host = HostName();
  const int rank = mesh_->rank();
  watch_->set_look([this] { return pulse_->Look(); });
  watch_->Begin(folder_->attempt(), /*goes_on=*/options_.resume.has_value());
  watch_->BeginAttempt(folder_->attempt(), {{.name = host, .ranks = {rank}}},
                       {{.rank = rank, .host = host, .pid = getpid()}});
}

absl::Status RankRun::BeginLog() {
  if (!options_.resume) FTUNE_RETURN_IF_ERROR(folder_->Clear());
  // What has a log is a run: from here on a next one can replace it, whatever happens to this one.
  FTUNE_ASSIGN_OR_RETURN(log_, RunLog::Open(paths().log(), folder_->attempt()));
  return AddLogSinks(recipe().log, *folder_, progress_, *log_);
}

absl::Status RankRun::CheckStepsLeft() const {
  const int64_t total = data_->steps().total;
  if (!options_.resume || options_.resume->step <= total) return absl::OkStatus();
  const bool by_steps = recipe().train.max_steps == total;
  return UsageError({.key = by_steps ? "train.max_steps" : "train.num_epochs",
                     .message = "the run has trained longer already",
                     .found = StrCat(total, " steps"),
                     .expected = StrCat("at least ", options_.resume->step,
                                        ", the step of the checkpoint that it goes on from"),
                     .hint = "raise it, or go on from an earlier checkpoint with --step"});
}

absl::Status RankRun::WriteDataFiles() {
  const RunData& data = data_->run();
  FTUNE_RETURN_IF_ERROR(WriteDropped(data, paths().dropped()));
  StreamedData* const stream = data_->stream();
  if (stream != nullptr) return stream->ListDropped(paths().dropped());
  return WriteAudit(AuditOf(data), paths().audit());
}

absl::Status RankRun::WriteStart(nlohmann::ordered_json facts) {
  if (options_.resume) FTUNE_RETURN_IF_ERROR(BeginLog());
  FTUNE_RETURN_IF_ERROR(WriteFileAtomic(paths().recipe(), ToYaml(WithAbsolutePaths(loaded_))));
  FTUNE_RETURN_IF_ERROR(WriteInputs(inputs_, paths().inputs()));
  if (options_.resume) facts["resumed_from"] = options_.resume->step;
  log_->Start(options_.resume ? options_.resume->step : 0, std::move(facts));
  return absl::OkStatus();
}

absl::Status RankRun::LeaveLaterCheckpoints() {
  FTUNE_RETURN_IF_ERROR(mesh_->world().Run(Call::Barrier()));
  if (leads()) FTUNE_RETURN_IF_ERROR(SetLaterAside());
  return results_->RemoveAfter(options_.resume->step);
}

absl::Status RankRun::SetLaterAside() {
  FTUNE_ASSIGN_OR_RETURN(const std::vector<int64_t> later,
                         SetAsideAfter(paths().checkpoints(), options_.resume->step, folder_->attempt()));
  if (later.empty()) return absl::OkStatus();
  progress_.Say(StrCat("checkpoints of a later step are set aside as superseded-", folder_->attempt(),
                       "-step-…: ", StrJoin(later, ", ")));
  return absl::OkStatus();
}

absl::Status RankRun::FindModel() {
  FTUNE_RETURN_IF_ERROR(CheckRanksCanRead(loaded_));
  const std::optional<InitInCheckpoint> init = options_.resume ? options_.resume->init : std::nullopt;
  FTUNE_ASSIGN_OR_RETURN(model_plan_, ToModelPlan(loaded_, hub_, ModelParts::kAll, init));
  return absl::OkStatus();
}

absl::Status RankRun::PrepareData() {
  const TimeScope time = Phase("prepare the data");
  data_ = std::make_unique<TrainData>(loaded_, progress_, mesh_->Coordinate(MeshAxis::kData));
  FTUNE_RETURN_IF_ERROR(data_->Prepare(model_plan_, hub_));
  TakeAddedTokens(data_->run(), model_plan_.options);
  if (mesh_->shape().pipeline > 1) FTUNE_RETURN_IF_ERROR(PlanStagesOfRanks());
  PlaceOnMesh(recipe(), *mesh_, pipeline_plan_, model_plan_.options);
  return absl::OkStatus();
}

absl::Status RankRun::PlanStagesOfRanks() {
  const LoadModelOptions& options = model_plan_.options;
  FTUNE_ASSIGN_OR_RETURN(const ModelFiles files, OpenModel(model_plan_.model_path));
  ModelConfig config = files.config;
  if (options.growth) config.vocab_size = std::max(config.vocab_size, options.growth->rows);
  FTUNE_ASSIGN_OR_RETURN(pipeline_plan_, PlanPipeline(recipe(), config, options));
  for (const std::string& line : DescribePipeline(*pipeline_plan_, recipe(), mesh_->shape())) {
    progress_.Say(line);
  }
  return absl::OkStatus();
}

absl::Status RankRun::PrepareModel() {
  const TimeScope time = Phase("load the model");
  backend_ = MakeCpuBackend(static_cast<int>(*recipe().launch.threads));
  FTUNE_ASSIGN_OR_RETURN(model_, LoadModel(*backend_, Stream(), model_plan_.model_path, model_plan_.options));
  model_.files.chat_template = data_->run().own_template;
  NameBase(recipe(), model_plan_, model_.files);
  WarnOfUnevenShares();
  FTUNE_RETURN_IF_ERROR(CheckTrainable(loaded_, *model_.model, mesh_->world()));
  FTUNE_RETURN_IF_ERROR(CheckTiedStaysEqual(loaded_, *model_.model));
  const std::optional<AddedTokens>& added = data_->run().added;
  if (added && !added->ids.empty()) FTUNE_RETURN_IF_ERROR(CheckAddedTokensTrain(loaded_, *model_.model));
  if (model_.quantize) {
    FTUNE_ASSIGN_OR_RETURN(const std::string text, DescribeQuantized());
    progress_.Say(text);
  }
  FTUNE_ASSIGN_OR_RETURN(RankParts parts,
                         MakeRankParts(recipe(), *backend_, *mesh_, pipeline_plan_, paths().folder, model_));
  optimizer_ = std::move(parts.optimizer);
  pipeline_ = std::move(parts.pipeline);
  if (recipe().memory.offload != Offload::kNone) DescribeOffload();
  return absl::OkStatus();
}

void RankRun::DescribeOffload() {
  if (const StateDisk* disk = optimizer_->disk()) {
    progress_.Say(absl::StrFormat("optimizer states: %.1f MiB in %s (%s)",
                                  static_cast<double>(disk->file_bytes()) / (1 << 20),
                                  paths().folder.string(), disk->method()));
  } else {
    progress_.Say("memory.offload: this optimizer keeps nothing, so nothing is moved");
  }
}

absl::Status RankRun::TakeMasters() {
  const bool goes_on = options_.resume && !options_.resume->folder.empty();  // then they are loaded with all
  const bool rounded = *recipe().precision.weights != WeightType::kFp32;
  if (!model_plan_.checkpoint || !rounded || goes_on) return absl::OkStatus();
  FTUNE_ASSIGN_OR_RETURN(CheckpointReader reader, CheckpointReader::Open(*model_plan_.checkpoint));
  return LoadMasters(*backend_, Stream(), reader, *model_.model, shards(), *optimizer_);
}

absl::StatusOr<std::string> RankRun::DescribeQuantized() {
  QuantizedWeights weights = FindQuantized(*model_.model, *model_.files.weights);
  Communicator& pipeline = mesh_->axis(MeshAxis::kPipeline);
  for (int64_t* number : {&weights.count, &weights.source_bytes, &weights.bytes, &weights.twice}) {
    FTUNE_ASSIGN_OR_RETURN(*number, pipeline.AllReduce(*number));
  }
  constexpr double kMiB = 1 << 20;
  std::string text = absl::StrFormat("quantised to %s: %d linears, %.1f MiB in the file, %.1f MiB in memory",
                                     std::string(QuantizationName(model_.quantize)), weights.count,
                                     static_cast<double>(weights.source_bytes) / kMiB,
                                     static_cast<double>(weights.bytes) / kMiB);
  if (weights.twice > 0) {
    StrAppend(text, "; ", weights.twice, " were quantised in the file already and are rounded a second time");
  }
  return text;
}

void RankRun::WarnOfWarmup(const LrOptions& rate) {
  if (rate.warmup_steps < rate.total_steps || rate.total_steps == 0) return;
  progress_.Say(absl::StrFormat(
      "warning: the warm-up of %d steps is as long as the run of %d steps: the learning rate never "
      "reaches %g; lower optimizer.warmup_steps",
      rate.warmup_steps, rate.total_steps, rate.peak));
}

absl::StatusOr<CommandResult> RankRun::Train() {
  FTUNE_ASSIGN_OR_RETURN(const ParameterCounts parameters, CountParameters(*model_.model, *mesh_));
  nlohmann::ordered_json facts =
      StartFacts(parameters, data_->steps().total, backend_->ledger().current(), mesh_->shape());
  facts.update(data_->Facts());
  TrainerOptions options = ToTrainerOptions(recipe(), data_->steps());
  FTUNE_RETURN_IF_ERROR(CheckStepsLeft());
  if (leads() && !options_.resume) FTUNE_RETURN_IF_ERROR(BeginLog());
  FTUNE_RETURN_IF_ERROR(MakeSaver());
  FTUNE_ASSIGN_OR_RETURN(options.resume, Restore());
  MakeResults();
  if (options_.resume) FTUNE_RETURN_IF_ERROR(results_->Find());
  if (options.resume) {
    const RunEnd end = EndOf(options, data_->evaluation() != nullptr, *options.resume);
    if (end != RunEnd::kNone && results_->Has(*options.resume)) {
      return results_->NothingLeft(*options.resume, end);
    }
  }
  if (leads()) FTUNE_RETURN_IF_ERROR(WriteDataFiles());
  const std::unique_ptr<BatchSource> batches =
      data_->MakeBatches(leads() ? paths().audit() : std::filesystem::path());
  if (options.resume) FTUNE_RETURN_IF_ERROR(batches->Seek(options.resume->position));
  // The recipe of a run that goes on is replaced when nothing is left that could refuse it, on any rank.
  FTUNE_RETURN_IF_ERROR(mesh_->world().Run(Call::Barrier()));
  if (leads()) FTUNE_RETURN_IF_ERROR(WriteStart(std::move(facts)));
  results_->set_log(log_.get());
  if (options_.resume) FTUNE_RETURN_IF_ERROR(LeaveLaterCheckpoints());
  RunObserver observer(log_.get(), progress_);
  if (!data_->sampler().empty()) {
    observer.set_answers([this] { return Answer(); });
  }
  if (results_->keeps_best()) observer.set_on_best([this](int64_t step) { return SaveBest(step); });
  observer.set_on_trace(
      [this](const TraceReport& report) { return WriteTrace(report, mesh_->world(), paths().trace()); });
  observer.set_on_first_step([this] { SetTimeout(recipe().launch.step_timeout); });

  options.trace_step = recipe().log.trace_step;
  options.step.timeline = &timeline_;
  WarnOfWarmup(options.learning_rate);
  if (options.trace_step.value_or(0) > data_->steps().total) {
    progress_.Say(
        absl::StrFormat("warning: log.trace_step is %d, but the run has %d steps: there will be no trace",
                        *options.trace_step, data_->steps().total));
  }
  const std::string useless = RunCheckpoints::WarnOfKeepEvery(recipe().checkpoint, data_->steps());
  if (!useless.empty()) progress_.Say(useless);
  RunCheckpoints checkpoints(*saver_, shards(),
                             RunCheckpoints::OptionsOf(recipe().checkpoint, data_->steps(), paths()), *stop_,
                             log_.get(), progress_);
  options.checkpoints = &checkpoints;
  Trainer trainer(*backend_, Stream(), *model_.model, *optimizer_, *batches, data_->evaluation(), options,
                  observer, &shards(), pipeline_.get());
  if (!trainer.why_barrier().empty()) progress_.Say(trainer.why_barrier());
  pulse_->set_total_steps(data_->steps().total);
  TrainSummary summary;
  {
    const TimeScope time = Phase("train");
    FTUNE_ASSIGN_OR_RETURN(summary, trainer.Run([this] { return Stops(); }));
  }
  const TimeScope time = Phase(kSavePhase);
  // A large model takes longer to write than a step may.
  SetTimeout(recipe().launch.start_timeout);
  const absl::Status kept = checkpoints.SaveLast(summary.state);
  // What was interrupted goes on, and comes to its result then. Otherwise it is saved also where the state
  // could not be kept: that takes more room than the result, which nothing could bring back.
  if (!summary.stopped) FTUNE_RETURN_IF_ERROR(results_->SaveAtEnd(summary));
  FTUNE_RETURN_IF_ERROR(kept);
  return results_->Finish(summary, stop_->received());
}

void RankRun::MakeResults() {
  results_.emplace(RunResults::Parts{.recipe = recipe(),
                                     .paths = paths(),
                                     .backend = *backend_,
                                     .model = model_,
                                     .shards = shards(),
                                     .optimizer = *optimizer_,
                                     .data = *data_,
                                     .world = mesh_->world(),
                                     .progress = progress_});
}

bool RankRun::Stops() {
  const std::optional<double>& limit = recipe().checkpoint.stop_after;
  return stop_->received() != 0 || (limit && Timeline::Now() - started_ >= *limit);
}

ModelShards& RankRun::shards() {
  if (model_.shards) return *model_.shards;
  if (!whole_) whole_ = ModelShards::Single(*backend_, Stream(), *model_.model);
  return *whole_;
}

absl::Status RankRun::MakeSaver() {
  const MeshShape& shape = mesh_->shape();
  SaverOptions options = {
      .checkpoints = paths().checkpoints(),
      .async = recipe().checkpoint.async,
      .retention = {.keep_last = recipe().checkpoint.keep_last, .keep_every = recipe().checkpoint.keep_every},
      .keep_best = recipe().checkpoint.keep_best,
      .is_own = [this, data = FingerprintOfData(inputs_)](
                    const CheckpointEntry& entry,
                    const Manifest& manifest) { return CheckOfRun(entry, manifest, loaded_, data).ok(); },
      .recipe = ToYaml(WithAbsolutePaths(recipe())),
      .model = FingerprintOfModel(inputs_),
      .data = FingerprintOfData(inputs_),
      .seed = static_cast<uint64_t>(recipe().train.seed),
      .mesh = MeshFacts(shape),
      .timeout = absl::Seconds(recipe().launch.start_timeout)};
  if (model_.lora) {
    options.adapter = WritePeftConfig(
        {.lora = *model_.lora, .base_model = model_.files.name, .base_revision = model_.files.revision});
  }
  FTUNE_ASSIGN_OR_RETURN(
      saver_, CheckpointSaver::Create(*backend_, Stream(), *model_.model, shards(), *optimizer_, options));
  return absl::OkStatus();
}

absl::StatusOr<std::optional<TrainerState>> RankRun::Restore() {
  if (!options_.resume || options_.resume->folder.empty()) return std::optional<TrainerState>();
  const TimeScope time = Phase("load the checkpoint");
  FTUNE_ASSIGN_OR_RETURN(CheckpointReader reader, OpenForAllRanks(mesh_->world(), options_.resume->folder,
                                                                  *model_.model, shards(), *optimizer_));
  if (leads()) FTUNE_RETURN_IF_ERROR(CheckModelOf(reader.manifest(), inputs_, options_.resume->folder));
  FTUNE_RETURN_IF_ERROR(LoadCheckpoint(*backend_, Stream(), reader, *model_.model, shards(), *optimizer_));
  TrainerState state = reader.manifest().state;
  // The evaluations that were no better were others: patience begins anew.
  const std::string file = (options_.resume->folder / kManifestName).string();
  FTUNE_ASSIGN_OR_RETURN(const LoadedRecipe written, LoadRunRecipe(reader.manifest().recipe, file));
  const TrainSection &now = recipe().train, &then = written.recipe.train;
  if (now.eval_steps != then.eval_steps || now.evals_per_epoch != then.evals_per_epoch) {
    state.worse_in_a_row = 0;
  }
  return std::optional<TrainerState>(std::move(state));
}

absl::StatusOr<std::vector<PromptAnswer>> RankRun::Answer() {
  const TimeScope time = Phase("answer");
  FTUNE_ASSIGN_OR_RETURN(std::vector<PromptAnswer> answers,
                         data_->sampler().Answer(*backend_, Stream(), *model_.model, pipeline_.get(),
                                                 [this] { pulse_->Beat(); }));
  if (!leads()) answers.clear();
  return answers;
}

absl::Status RankRun::SaveBest(int64_t step) {
  // A large model takes longer to write than a step may.
  const TimeScope time = Phase(kSavePhase);
  const double before = timeout_;
  SetTimeout(recipe().launch.start_timeout);
  FTUNE_RETURN_IF_ERROR(results_->Save(step));
  SetTimeout(before);
  return absl::OkStatus();
}

absl::StatusOr<CommandResult> RankRun::Verify() {
  const TrainerOptions options = ToTrainerOptions(recipe(), data_->steps());
  TrainStep step(*backend_, Stream(), *model_.model, *optimizer_, options.step, model_.shards.get(),
                 pipeline_.get());
  const std::unique_ptr<BatchSource> batches = data_->MakeBatches({});
  const VerifyTrainer trainer = {.backend = *backend_,
                                 .step = step,
                                 .model = *model_.model,
                                 .batches = *batches,
                                 .learning_rate = options.learning_rate,
                                 .stop = [this] { return stop_->received() != 0; }};
  const VerifyReference reference(options_.verify->reference);
  absl::StatusOr<CommandResult> result = CommandResult{};
  if (options_.verify->steps > 0) {
    const absl::Status left = RunReference(trainer, options_.verify->steps, reference);
    if (!left.ok()) result = left;
  } else {
    const VerifyTolerances tolerances = VerifyTolerances::For(ToOptimizerOptions(recipe()).kind);
    const absl::StatusOr<VerifyResult> found = RunComparison(trainer, reference, tolerances);
    result =
        found.ok() ? CommandResult{.json = ToJson(*found)} : absl::StatusOr<CommandResult>(found.status());
  }
  // Nothing is saved: a signal ends it as it ends any other command.
  if (absl::IsCancelled(result.status())) return CommandResult{.exit = 128 + stop_->received()};
  return result;
}

absl::StatusOr<CommandResult> RankRun::TestLearningRates() {
  LrRangeTest test(progress_);
  TrainerOptions trainer_options = ToTrainerOptions(recipe(), data_->steps());
  trainer_options.learning_rate = LrRangeTest::Schedule();
  trainer_options.learning_rate.total_steps = data_->steps().total;
  trainer_options.eval_on_start = false;
  const std::unique_ptr<BatchSource> batches = data_->MakeBatches(paths().audit());
  Trainer trainer(*backend_, Stream(), *model_.model, *optimizer_, *batches, nullptr, trainer_options, test);
  const absl::StatusOr<TrainSummary> summary =
      trainer.Run([&] { return stop_->received() != 0 || test.diverged(); });
  if (stop_->received() != 0) {
    progress_.Say("stopped: the test was not finished, so nothing is suggested");
    constexpr int kStopped = static_cast<int>(ExitCode::kPreempted);
    return CommandResult{.json = {{"run", paths().shown.string()}, {"exit", kStopped}}, .exit = kStopped};
  }
  // At some rate the loss is no longer a number: the test ends there, as at any divergence.
  if (!summary.ok() && ExitCodeOf(summary.status()) != static_cast<int>(ExitCode::kNotFinite))
    return summary.status();
  FTUNE_ASSIGN_OR_RETURN(const LrRangeResult result, test.Result());
  return ReportRangeTest(result, paths().folder, json_);
}

}  // namespace ftune
