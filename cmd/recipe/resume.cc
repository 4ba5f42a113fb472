#include "cmd/recipe/resume.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/strings.h"
#include "cmd/recipe/errors.h"
#include "cmd/recipe/key_table.h"
#include "cmd/recipe/paths.h"

namespace ftune {
namespace {

constexpr char kMicro[] = "train.micro_batch_size";
constexpr char kAccumulation[] = "train.gradient_accumulation_steps";

// Derived from the batch and the mesh together (FitBatch): kept where they fit, so that a run on the same
// mesh computes what it would have computed.
bool FollowsMesh(const std::string& key) { return key == kMicro || key == kAccumulation; }

void Copy(const RecipeKey& key, const Recipe& from, Recipe& to) {
  const std::optional<Node> value = key.write(from);
  std::vector<ErrorDetail> none;  // what a key has written it can read
  if (value) key.read(*value, {"", key.name, &none}, to);
}

std::string Shown(const RecipeKey& key, const Recipe& recipe) {
  const std::optional<Node> value = key.write(recipe);
  return value ? WriteFlow(*value) : "";
}

// The value that a key was given, by the comment on its line of a run's recipe. A line that is not as the run
// has written it says nothing.
std::optional<std::string> GivenOf(std::string_view line, const RecipeKey& key, const Recipe& recipe) {
  line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
  const std::string start =
      StrCat(key.last_name(), ": ", Shown(key, recipe), "  # ", std::string(kFromComment));
  if (!line.starts_with(start)) return std::nullopt;
  return std::string(line.substr(start.size()));
}

std::vector<std::string_view> LinesOf(std::string_view text) {
  std::vector<std::string_view> lines;
  for (size_t end; !text.empty(); text.remove_prefix(std::min(end + 1, text.size()))) {
    end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
  }
  return lines;
}

// A run's recipe as it is read.
struct RunText {
  Node root;
  LoadedRecipe resolved;
  std::map<std::string, Node> given;  // of keys that have another value now
};

absl::StatusOr<RunText> ReadRunText(std::string_view text, const std::string& file) {
  RunText run;
  FTUNE_ASSIGN_OR_RETURN(run.root, ParseRecipe(text, file));
  FTUNE_ASSIGN_OR_RETURN(run.resolved, ReadRecipe(run.root, file));
  const std::vector<std::string_view> lines = LinesOf(text);
  for (const RecipeKey& key : RecipeKeys().keys()) {
    const auto place = run.resolved.places.find(key.name);
    if (place == run.resolved.places.end() || place->second.line > std::ssize(lines)) continue;
    const std::optional<std::string> given = GivenOf(lines[place->second.line - 1], key, run.resolved.recipe);
    if (!given) continue;
    absl::StatusOr<Node> value = ParseYaml(*given, file);
    if (!value.ok()) return RecipeStatus(RecipeErrorsOf(value.status()));
    run.given[key.name] = *std::move(value);
  }
  return run;
}

// The tree with the values that keys were given; of those only that `chosen` names.
Node Undone(const RunText& run, bool (*chosen)(const RecipeKey&)) {
  Node root = run.root;
  for (const auto& [name, value] : run.given) {
    if (!chosen(*RecipeKeys().Find(name))) continue;
    Node* node = &root;
    std::string_view rest = name;
    for (size_t dot; (dot = rest.find('.')) != std::string_view::npos; rest.remove_prefix(dot + 1)) {
      node = &node->At(rest.substr(0, dot));
    }
    node->At(rest) = value;
  }
  return root;
}

bool Any(const RecipeKey&) { return true; }
bool DerivedAgain(const RecipeKey& key) { return key.on_resume == OnResume::kFree && !FollowsMesh(key.name); }

// What was derived was not given.
void ForgetPlaces(LoadedRecipe& loaded, const RunText& run) {
  for (const auto& [name, value] : run.given) {
    if (!loaded.GivenOnCommandLine(name)) loaded.places.erase(name);
  }
}

// A key that has no meaning beside others, which the command line has changed: it gives way.
struct Dependent {
  std::string key;
  bool (*without_effect)(const LoadedRecipe&);
};

bool OtherStages(const LoadedRecipe& loaded) {
  const auto given = [&](const char* key) { return loaded.GivenOnCommandLine(key); };
  return given("parallel.pipeline") || given("parallel.schedule") || given("parallel.virtual_stages");
}

const std::vector<Dependent>& Dependents() {
  static const std::vector<Dependent> all = {
      {"model.revision", [](const LoadedRecipe& l) { return l.GivenOnCommandLine("model.path"); }},
      {"parallel.schedule", [](const LoadedRecipe& l) { return l.recipe.parallel.pipeline == 1; }},
      {"parallel.virtual_stages",
       [](const LoadedRecipe& l) {
         return l.recipe.parallel.pipeline == 1 || l.GivenOnCommandLine("parallel.schedule");
       }},
      {"parallel.stages",
       [](const LoadedRecipe& l) { return l.recipe.parallel.pipeline == 1 || OtherStages(l); }},
      {"parallel.sequence_parallel", [](const LoadedRecipe& l) { return l.recipe.parallel.tensor == 1; }},
      {"parallel.shard_size", [](const LoadedRecipe& l) { return l.recipe.parallel.zero == 0; }},
      {"parallel.reshard_after_forward", [](const LoadedRecipe& l) { return l.recipe.parallel.zero != 3; }},
      {"parallel.compression_ratio",
       [](const LoadedRecipe& l) { return l.recipe.parallel.compression != CompressionName::kTopK; }},
  };
  return all;
}

void DropWithoutEffect(LoadedRecipe& loaded) {
  for (const Dependent& dependent : Dependents()) {
    if (loaded.GivenOnCommandLine(dependent.key) || !dependent.without_effect(loaded)) continue;
    Copy(*RecipeKeys().Find(dependent.key), Recipe(), loaded.recipe);
  }
}

// Of the ranks that there are and the mesh that there was, one gives way.
void FitRanks(LoadedRecipe& loaded, const Environment& environment) {
  ParallelSection& parallel = loaded.recipe.parallel;
  LaunchSection& launch = loaded.recipe.launch;
  int64_t product = 1;
  for (const Auto<int64_t>* axis :
       {&parallel.data, &parallel.tensor, &parallel.pipeline, &parallel.context}) {
    if (!*axis) return;                         // it follows from the others
    if (**axis > kMostRanks / product) return;  // Resolve says that these are too many
    product *= **axis;
  }
  std::optional<int64_t> ranks;
  if (environment.ranks > 0) {
    ranks = environment.ranks;
  } else if (!environment.slots.empty()) {
    ranks = environment.RanksOnHosts(launch.ranks_per_host.value_or(1));
  } else {
    ranks = launch.ranks_per_host;
  }
  if (!ranks || *ranks == product) return;
  const bool ranks_are_asked_for = environment.ranks > 0 || environment.RanksOnHosts(0) > 0 ||
                                   loaded.GivenOnCommandLine("launch.ranks_per_host") ||
                                   loaded.GivenOnCommandLine("launch.hosts") ||
                                   loaded.GivenOnCommandLine("launch.hostfile");
  if (!ranks_are_asked_for) {
    launch.ranks_per_host.reset();
  } else if (!loaded.GivenOnCommandLine("parallel.data")) {
    parallel.data.reset();
  }
}

// The parts of a global batch that stays, over so many ranks.
void FitBatch(LoadedRecipe& loaded, int64_t data_ranks) {
  TrainSection& train = loaded.recipe.train;
  const bool asked_micro = loaded.GivenOnCommandLine(kMicro);
  const bool asked_accumulation = loaded.GivenOnCommandLine(kAccumulation);
  if (!train.global_batch_size || (asked_micro && asked_accumulation)) return;
  const int64_t global = *train.global_batch_size;
  const int64_t of_rank = global / data_ranks;
  if (global % data_ranks == 0 && train.micro_batch_size && train.gradient_accumulation_steps &&
      of_rank % *train.micro_batch_size == 0 &&
      of_rank / *train.micro_batch_size == *train.gradient_accumulation_steps) {
    return;
  }
  if (!asked_accumulation) train.gradient_accumulation_steps.reset();
  if (asked_micro) return;
  if (asked_accumulation) {  // the microbatch follows from the other two
    train.micro_batch_size.reset();
    return;
  }
  const int64_t share = std::max<int64_t>(1, of_rank);
  int64_t micro = std::min(share, train.micro_batch_size.value_or(1));
  while (share % micro != 0) --micro;
  train.micro_batch_size = micro;
}

// Sections that one of the two recipes has and the other does not.
std::vector<std::string> OnlyInOne(const Recipe& a, const Recipe& b) {
  std::vector<std::string> names;
  for (const RecipeSection& section : RecipeKeys().sections()) {
    if (section.present(a) != section.present(b)) names.push_back(section.name);
  }
  return names;
}

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

}  // namespace

absl::Status FitToMesh(LoadedRecipe& loaded, const EnvironmentFinder& find) {
  FTUNE_ASSIGN_OR_RETURN(const Environment environment, find(loaded));
  FitRanks(loaded, environment);
  // The ranks of data, whatever the sizes of the batch.
  LoadedRecipe trial = loaded;
  trial.recipe.train.global_batch_size.reset();
  trial.recipe.train.micro_batch_size.reset();
  trial.recipe.train.gradient_accumulation_steps.reset();
  FTUNE_RETURN_IF_ERROR(Resolve(trial, environment));
  FitBatch(loaded, *trial.recipe.parallel.data);
  return absl::OkStatus();
}

absl::StatusOr<LoadedRecipe> LoadRunRecipe(std::string_view text, const std::string& file) {
  FTUNE_ASSIGN_OR_RETURN(const RunText run, ReadRunText(text, file));
  LoadedRecipe loaded = run.resolved;
  FTUNE_ASSIGN_OR_RETURN(LoadedRecipe given, ReadRecipe(Undone(run, Any), file));
  loaded.given = std::move(given.recipe);
  ForgetPlaces(loaded, run);
  return loaded;
}

absl::StatusOr<LoadedRecipe> TakeUpRecipe(std::string_view text, const std::string& file,
                                          const std::vector<std::string>& overrides,
                                          const EnvironmentFinder& environment) {
  FTUNE_ASSIGN_OR_RETURN(const RunText run, ReadRunText(text, file));
  FTUNE_ASSIGN_OR_RETURN(LoadedRecipe loaded,
                         ReadRecipe(Undone(run, DerivedAgain), file, overrides, DropWithoutEffect));
  FTUNE_ASSIGN_OR_RETURN(LoadedRecipe given,
                         ReadRecipe(Undone(run, Any), file, overrides, DropWithoutEffect));
  loaded.given = std::move(given.recipe);
  ForgetPlaces(loaded, run);
  FTUNE_RETURN_IF_ERROR(FitToMesh(loaded, environment));
  return loaded;
}

absl::Status FollowRun(LoadedRecipe& given, const LoadedRecipe& run, const EnvironmentFinder& environment) {
  given.given = given.recipe;
  const std::vector<std::string> only_in_one = OnlyInOne(given.recipe, run.recipe);
  // A run's own recipe has its paths whole. Given ones stay as they are: on other hosts, which may not have
  // the run, they may lead elsewhere.
  const Recipe asked = WithAbsolutePaths(given.recipe), has = WithAbsolutePaths(run.recipe);
  const std::optional<Recipe> led_to_run =
      run.given ? std::optional(WithAbsolutePaths(*run.given)) : run.given;
  for (const RecipeKey& key : RecipeKeys().keys()) {
    if (DerivedAgain(key) || Contains(only_in_one, key.section)) continue;
    // What it says is what the run was given, and led to what the run has.
    const bool as_the_run = led_to_run && Shown(key, asked) == Shown(key, *led_to_run);
    if (!as_the_run && given.places.contains(key.name)) continue;
    if (Shown(key, asked) != Shown(key, has)) Copy(key, run.recipe, given.recipe);
  }
  return FitToMesh(given, environment);
}

absl::Status CheckMayResume(const LoadedRecipe& loaded, const Recipe& run, const std::string& file,
                            const std::vector<std::string>& by_content) {
  const auto refuse = [&](const std::string& key, const std::string& found, const std::string& expected) {
    ErrorDetail error = loaded.At(key);
    error.message = "a run goes on with what it began with";
    error.found = found;
    error.expected = StrCat(expected, ", as in ", file);
    error.hint = "leave it, or start another run from this one's weights, with model.init_from";
    return error;
  };
  // What was given as the run has it, and is now derived otherwise, follows from another key.
  const auto follows = [&](const RecipeKey& key, const std::string& expected) {
    return loaded.given && Shown(key, *loaded.given) == expected;
  };
  std::vector<ErrorDetail> errors, consequences;
  const std::vector<std::string> only_in_one = OnlyInOne(loaded.recipe, run);
  for (const std::string& name : only_in_one) {
    const bool in_run = RecipeKeys().FindSection(name)->present(run);
    errors.push_back(refuse(name, in_run ? "nothing" : "the section", in_run ? "the section" : "nothing"));
  }
  // The best loss so far, which decides when to stop, is one of the same evaluation data.
  const bool stops_early = loaded.recipe.train.early_stopping_patience.has_value();
  const Recipe now = WithAbsolutePaths(loaded.recipe), then = WithAbsolutePaths(run);
  const Recipe what_now = WithoutPlaces(loaded.recipe), what_then = WithoutPlaces(run);
  for (const RecipeKey& key : RecipeKeys().keys()) {
    const bool fixed = key.on_resume == OnResume::kFixed || (stops_early && key.name == "data.eval");
    if (!fixed || Contains(only_in_one, key.section)) continue;
    const bool moved = Contains(by_content, key.name) && Shown(key, what_now) == Shown(key, what_then);
    const std::string found = Shown(key, now), expected = Shown(key, then);
    if (found == expected || moved) continue;
    (follows(key, Shown(key, run)) ? consequences : errors).push_back(refuse(key.name, found, expected));
  }
  return RecipeStatus(errors.empty() ? std::move(consequences) : std::move(errors));
}

}  // namespace ftune
