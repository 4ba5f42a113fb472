#include "cmd/train/same_files.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/mapped_file.h"
#include "base/strings.h"
#include "base/xxh3_stream.h"
#include "cmd/recipe/paths.h"
#include "data/source/dataset_fingerprint.h"
#include "data/template/load_chat_template.h"
#include "engine/checkpoint/manifest.h"
#include "engine/format/model_fingerprint.h"
#include "parallel/comm/gather_text.h"
#include "parallel/launch/host_identity.h"
#include "parallel/schedule/csv.h"

namespace ftune {
namespace {

constexpr char kPathKey[] = "model.path";
constexpr char kInitKey[] = "model.init_from";
constexpr char kScheduleKey[] = "parallel.schedule";
constexpr char kTemplateKey[] = "data.chat_template";

constexpr char kFileAdvice[] = "copy it from one host to the others";
constexpr char kSamplesAdvice[] =
    "compare the tokenizer's files, the chat template and the version of ftune on the hosts";
constexpr char kSamples[] = "the samples";

std::string Bytes(int64_t bytes) { return StrCat(bytes, " bytes"); }

void Add(const char* key, const std::vector<FileFingerprint>& files, std::vector<SharedInput>& inputs) {
  for (const FileFingerprint& file : files) {
    inputs.push_back({key, AbsolutePath(file.path), Bytes(file.bytes), file.hash});
  }
}

void Add(const char* key, const std::vector<HashedFile>& files, std::vector<SharedInput>& inputs) {
  for (const HashedFile& file : files) {
    uint64_t hash = 0;
    std::memcpy(&hash, file.hash.data(), sizeof(hash));
    inputs.push_back({key, AbsolutePath(file.file.path), Bytes(file.size), hash});
  }
}

void Add(const char* key, const Dataset* samples, std::vector<SharedInput>& inputs) {
  if (samples == nullptr) return;
  const std::string size = StrCat(samples->size(), " of ", samples->tokens(), " tokens");
  inputs.push_back({key, kSamples, size, FingerprintOf(*samples)});
}

// Whatever the path is.
uint64_t HashOf(const std::vector<SharedInput>& inputs) {
  Xxh3Stream hash;
  for (const SharedInput& input : inputs) {
    hash.Add(StrCat(input.key, "\n", input.size, "\n", input.hash, "\n"));
  }
  return hash.Digest64();
}

// What a rank says of its own.
struct RankInputs {
  std::string host;
  std::vector<SharedInput> inputs;

  std::string Encode() const {
    nlohmann::json list = nlohmann::json::array();
    for (const SharedInput& input : inputs) list.push_back({input.key, input.place, input.size, input.hash});
    return nlohmann::json({{"host", host}, {"inputs", std::move(list)}})
        .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  }
  // What Encode made, on a rank of this program.
  static RankInputs Decode(const std::string& text) {
    const nlohmann::json json = nlohmann::json::parse(text);
    RankInputs rank{.host = json.at("host")};
    for (const nlohmann::json& input : json.at("inputs")) {
      rank.inputs.push_back({input.at(0), input.at(1), input.at(2), input.at(3)});
    }
    return rank;
  }
};

// `rank` is the first whose inputs differ from those of the first rank; so do `others` after it.
absl::Status Differs(const RankInputs& first, const RankInputs& other, int rank, int64_t others) {
  const auto [a, b] =
      std::mismatch(first.inputs.begin(), first.inputs.end(), other.inputs.begin(), other.inputs.end(), Same);
  const SharedInput& input = b != other.inputs.end() ? *b : *a;
  const auto show = [](auto input, const RankInputs& of) {
    return input == of.inputs.end() ? StrCat("no such file on ", of.host)
                                    : StrCat(input->place, " on ", of.host, ", ", input->size);
  };
  const bool samples = IsSamples(input);
  std::string message = StrCat("its ", samples ? "samples" : "file", " of ", input.key,
                               samples ? " are others" : " holds something else", " than rank 0's");
  if (others > 0) StrAppend(message, " (and so with ", others, others == 1 ? " rank" : " ranks", " more)");
  return DataError({.key = StrCat("rank ", rank),
                    .message = std::move(message),
                    .found = show(b, other),
                    .expected = StrCat("the same as ", show(a, first)),
                    .hint = samples ? kSamplesAdvice : kFileAdvice});
}

absl::Status Compare(const std::vector<std::string>& texts) {
  const RankInputs first = RankInputs::Decode(texts.front());
  const uint64_t hash = HashOf(first.inputs);
  std::vector<int> differ;
  for (int rank = 1; rank < std::ssize(texts); ++rank) {
    if (HashOf(RankInputs::Decode(texts[rank]).inputs) != hash) differ.push_back(rank);
  }
  if (differ.empty()) return absl::InternalError("ranks with the same files have other hashes of them");
  return Differs(first, RankInputs::Decode(texts[differ.front()]), differ.front(), std::ssize(differ) - 1);
}

}  // namespace

bool Same(const SharedInput& a, const SharedInput& b) {
  return a.key == b.key && a.size == b.size && a.hash == b.hash;
}

bool IsSamples(const SharedInput& input) { return input.place == kSamples; }

absl::StatusOr<std::vector<SharedInput>> ModelInputs(const Recipe& recipe, const ModelPlan& plan) {
  std::vector<SharedInput> inputs;
  FTUNE_ASSIGN_OR_RETURN(const std::vector<FileFingerprint> model, FingerprintModel(plan.model_path));
  Add(plan.model_path == recipe.model.here ? kPathKey : kInitKey, model, inputs);
  for (const std::filesystem::path& folder : plan.options.adapters) {
    FTUNE_ASSIGN_OR_RETURN(const std::vector<FileFingerprint> adapter, FingerprintAdapter(folder));
    Add(kInitKey, adapter, inputs);
  }
  if (plan.checkpoint) {  // whose manifest has the hashes of its files
    FTUNE_ASSIGN_OR_RETURN(const MappedFile manifest, MappedFile::Open(*plan.checkpoint / kManifestName));
    inputs.push_back({kInitKey, AbsolutePath(manifest.path().string()), Bytes(std::ssize(manifest.bytes())),
                      Xxh3Of(manifest.text())});
  }
  return inputs;
}

std::vector<SharedInput> DataInputs(const Recipe& recipe, const RunData& data,
                                    const ScheduleSource& schedule) {
  std::vector<SharedInput> inputs;
  if (schedule.given) {
    const std::string text = FormatScheduleCsv(*schedule.given);
    inputs.push_back(
        {kScheduleKey, AbsolutePath(schedule.file.string()), Bytes(std::ssize(text)), Xxh3Of(text)});
  }
  if (const auto& choice = recipe.data.chat_template; choice && IsTemplateFile(*choice)) {
    const std::string& text = data.own_template;
    inputs.push_back({kTemplateKey, AbsolutePath(*choice), Bytes(std::ssize(text)), Xxh3Of(text)});
  }
  Add(kTrainKey, data.train_files, inputs);
  Add(kEvaluationKey, data.evaluation_files, inputs);
  Add(kTrainKey, data.train.get(), inputs);
  Add(kEvaluationKey, data.evaluation.get(), inputs);
  return inputs;
}

absl::Status CheckSameInputs(Communicator& world, const std::vector<SharedInput>& own) {
  const auto hash = static_cast<int64_t>(HashOf(own) >> 1);
  std::array<int64_t, 2> extremes = {hash, -hash};
  FTUNE_RETURN_IF_ERROR(world.Run(
      Call::AllReduce({reinterpret_cast<std::byte*>(extremes.data()), 2, DType::kI64, {}}, ReduceOp::kMax)));
  if (extremes[0] == -extremes[1]) return absl::OkStatus();
  const RankInputs said = {.host = HostName(), .inputs = own};
  FTUNE_ASSIGN_OR_RETURN(const std::vector<std::string> texts, GatherText(world, said.Encode()));
  const absl::Status status = world.rank() == 0 ? Compare(texts) : absl::OkStatus();
  // The others hear of it from rank 0.
  if (!status.ok()) world.Abort(status);
  FTUNE_RETURN_IF_ERROR(status);
  return world.Run(Call::Barrier());
}

}  // namespace ftune
