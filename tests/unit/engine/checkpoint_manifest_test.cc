// manifest.json: what is written is read back, and what is wrong with one is said.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/manifest.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/engine/checkpoint_builder.h"

namespace ftune {
namespace {

using nlohmann::json;
using testing::BuiltTensor;
using testing::Floats;
using testing::WriteCheckpoint;

std::vector<BuiltTensor> SomeTensors() {
  BuiltTensor w = Floats("w", {3, 4}, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12});
  w.slices = {{{{0, 0}, {3, 2}}, 0}, {{{0, 2}, {2, 2}}, 1}, {{{2, 2}, {1, 2}}, 0}};
  BuiltTensor state = w;
  state.state = "exp_avg";
  BuiltTensor code{.name = "w", .state = "scale@tensor=1/2", .dtype = DType::kU8, .shape = {5}};
  code.bytes.resize(5, std::byte{3});
  return {w, state, code, Floats("b", {2}, {1, 2})};
}

Manifest FullManifest() {
  Manifest manifest;
  manifest.recipe = "model: {path: \"m\"}\n# é\n";
  manifest.model = "5eed";
  manifest.seed = std::numeric_limits<uint64_t>::max();
  manifest.state = {.position = {.step = 9, .epoch = 2, .row = 31, .batch = 4},
                    .updates = 8,
                    .skipped = 1,
                    .epoch = 2.0 / 3.0,
                    .loss_scale = LossScaler::State{},
                    .loss = 0.1,
                    .eval_loss = 1e-30,
                    .best_loss = 1.0 / 3.0,
                    .best_step = 6,
                    .worse_in_a_row = 2};
  manifest.state.loss_scale->scale = 1024.0;
  manifest.state.loss_scale->good_steps = 7;
  manifest.mesh = {{"data", 1}, {"tensor", 2}};
  return manifest;
}

// A new file: many file systems flush one that is overwritten.
void PutManifest(const TempFolder& folder, const std::string& text) {
  std::filesystem::remove(folder / kManifestName);
  WriteBytes(folder / kManifestName, text);
}

// Reads every tensor: where a manifest was accepted, none of its slices may lead out of a file.
absl::Status ReadAll(const std::filesystem::path& folder) {
  auto reader = CheckpointReader::Open(folder);
  if (!reader.ok()) return reader.status();
  std::vector<std::byte> out;
  const auto read = [&](const CheckpointTensor& tensor) {
    // A shape that only a manifest has is not worth its memory.
    if (tensor.bytes() > 1 << 20) return absl::OkStatus();
    out.resize(static_cast<size_t>(tensor.bytes()));
    return reader->Read(tensor, WholeOf(tensor.shape), out.data());
  };
  absl::Status status;
  for (const auto& [name, tensor] : reader->manifest().values) status.Update(read(tensor));
  for (const auto& [name, states] : reader->manifest().optimizer) {
    for (const auto& [key, tensor] : states) status.Update(read(tensor));
  }
  return status;
}

TEST_CASE("a manifest is read back as it was written") {
  for (const bool full : {true, false}) {
    const TempFolder folder;
    const Manifest written =
        WriteCheckpoint(folder.path(), 9, SomeTensors(), full ? FullManifest() : Manifest{.recipe = "r"});
    const auto read = ReadManifest(folder.path());
    REQUIRE_MESSAGE(read.ok(), std::string(read.status().message()));
    CHECK(read->seed == written.seed);
    CHECK(read->state.position == written.state.position);
    CHECK(read->state.epoch == written.state.epoch);
    CHECK(read->state.eval_loss == written.state.eval_loss);
    CHECK(read->state.loss_scale.has_value() == full);
    CHECK(read->recipe == written.recipe);
    CHECK(read->values.at("w").slices.size() == 3);
    CHECK(read->bytes() == written.bytes());
    CHECK(WriteManifest(*read) == ReadBytes(folder / kManifestName));
    CHECK(ReadAll(folder.path()).ok());
  }
}

TEST_CASE("numbers that JSON does not have are nothing") {
  const TempFolder folder;
  Manifest manifest = FullManifest();
  manifest.state.loss = std::nan("");
  manifest.state.eval_loss = std::numeric_limits<double>::infinity();
  WriteCheckpoint(folder.path(), 9, SomeTensors(), manifest);
  const auto read = ReadManifest(folder.path());
  REQUIRE_MESSAGE(read.ok(), std::string(read.status().message()));
  CHECK_FALSE(read->state.loss.has_value());
  CHECK_FALSE(read->state.eval_loss.has_value());
}

struct Mutation {
  const char* pointer;
  json value;  // discarded: the key goes
  std::vector<std::string> said;
};

TEST_CASE("what is wrong with a manifest is said with the key") {
  const TempFolder folder;
  WriteCheckpoint(folder.path(), 9, SomeTensors(), FullManifest());
  const std::string text = ReadBytes(folder / kManifestName);
  const json none = json(json::value_t::discarded);
  const std::string whole_slice = R"({"file":"rank-0.safetensors","offset":0,"begin":[0,0],"size":[3,4]})";
  const std::vector<Mutation> mutations = {
      {"/format", none, {"format"}},
      {"/format", "safetensors", {"format", "'safetensors'", "'ftune checkpoint'"}},
      {"/version", 2, {"version", "another version of ftune", "2", "newer"}},
      {"/version", 0, {"version", "0", "resume with the ftune that has written it"}},
      {"/version", "1", {"version"}},
      {"/step", -1, {"step", "-1"}},
      {"/step", 8, {"state.position.step", "9", "8"}},
      {"/seed", -1, {"seed", "-1"}},
      {"/seed", none, {"seed", "nothing"}},
      {"/seed", 1.5, {"seed", "1.5"}},
      {"/recipe", none, {"recipe"}},
      {"/model", 3, {"model", "3"}},
      {"/state", none, {"state", "nothing"}},
      {"/state", json::array(), {"state", "[]"}},
      {"/state/position", none, {"position"}},
      {"/state/position/row", -4, {"position.row", "-4"}},
      {"/state/position/row", uint64_t{1} << 63, {"position.row", "9223372036854775808"}},
      {"/state/updates", none, {"updates"}},
      {"/state/epoch", "one", {"epoch", "one"}},
      {"/state/loss", "low", {"loss", "low"}},
      {"/state/best_step", -2, {"best_step", "-2"}},
      {"/state/loss_scale", 3, {"loss_scale", "3"}},
      {"/state/loss_scale/scale", none, {"scale"}},
      {"/state/loss_scale/overflows", -1, {"overflows", "-1"}},
      {"/files", none, {"files"}},
      {"/files/rank-0.safetensors", 7, {"files.rank-0.safetensors", "7"}},
      {"/files/rank-0.safetensors/bytes", -1, {"bytes", "-1"}},
      {"/files/rank-0.safetensors/bytes", 100, {"ends past the end of rank-0.safetensors"}},
      {"/files/rank-0.safetensors/xxh3", "12", {"xxh3", "'12'", "16 hexadecimal digits"}},
      {"/files/rank-0.safetensors/xxh3", "0123456789abcdeg", {"xxh3"}},
      {"/files/rank-0.safetensors/xxh3", "-123456789abcdef", {"xxh3"}},
      {"/files/rank-0.safetensors", none, {"'rank-0.safetensors'", "one of 'files'"}},
      {"/files/..", json{{"bytes", 1}}, {"files", "'..'"}},
      {"/files/..~1x", json{{"bytes", 1}}, {"files", "'../x'"}},
      {"/files/", json{{"bytes", 1}}, {"files", "''"}},
      {"/values", none, {"values"}},
      {"/values/w", 1, {"w", "1"}},
      {"/values/w/dtype", "F8_E4M3", {"w", "F8_E4M3"}},
      {"/values/w/dtype", "float32", {"w", "float32"}},
      {"/values/w/shape", json::array(), {"w", "shape"}},
      {"/values/w/shape", {3, -4}, {"w", "shape", "-4"}},
      {"/values/w/shape", {int64_t{1} << 40, int64_t{1} << 40}, {"w", "shape", "memory"}},
      {"/values/w/shape", {3, 5}, {"w", "3 of 15 elements are missing"}},
      {"/values/w/shape", {3, 3}, {"w", "a part of the tensor"}},
      {"/values/w/shape", {3, 4, 1}, {"w", "a part of the tensor"}},
      {"/values/w/slices", none, {"w", "slices"}},
      {"/values/w/slices", json::array(), {"w", "12 of 12 elements are missing"}},
      {"/values/w/slices/0", "all", {"w", "all"}},
      {"/values/w/slices/0/file", "other", {"w", "'other'"}},
      {"/values/w/slices/0/offset", -1, {"offset", "-1"}},
      {"/values/w/slices/0/offset", 1 << 30, {"w", "past the end"}},
      {"/values/w/slices/0/offset", std::numeric_limits<int64_t>::max(), {"w", "past the end"}},
      {"/values/w/slices/0/begin", {0}, {"w", "a part of the tensor"}},
      {"/values/w/slices/0/begin", {1, 0}, {"w", "a part of the tensor"}},
      {"/values/w/slices/0/begin", {0, 1}, {"w", "overlap"}},
      {"/values/w/slices/0/size", {2, 2}, {"w", "2 of 12 elements are missing"}},
      {"/values/w/slices/0/size", {0, 2}, {"w", "no part"}},
      {"/values/w/slices/0/size", {3, uint64_t{1} << 63}, {"w", "size"}},
      {"/values/w/slices/0", json::parse(whole_slice), {"w", "overlap"}},
      {"/optimizer", none, {"optimizer"}},
      {"/optimizer/w", json::array(), {"optimizer.w", "[]"}},
      {"/optimizer/w/exp_avg/slices", json::array(), {"w: exp_avg", "missing"}},
  };
  for (const Mutation& mutation : mutations) {
    json root = json::parse(text);
    root.erase("xxh3");
    const json::json_pointer pointer(mutation.pointer);
    if (mutation.value.is_discarded()) {
      root[pointer.parent_pointer()].erase(pointer.back());
    } else {
      root[pointer] = mutation.value;
    }
    PutManifest(folder, root.dump());
    const auto read = ReadManifest(folder.path());
    REQUIRE_MESSAGE(!read.ok(), mutation.pointer, " = ", mutation.value.dump());
    const std::string said(read.status().message());
    CHECK_MESSAGE(Contains(said, (folder / kManifestName).string()), said);
    for (const std::string& part : mutation.said)
      CHECK_MESSAGE(Contains(said, part), mutation.pointer, ": '", part, "' is not in ", said);
  }
}

// Puts each of some values in the place of every one that the manifest has.
TEST_CASE("no value in any place makes a manifest that leads astray") {
  const TempFolder folder;
  WriteCheckpoint(folder.path(), 9, SomeTensors(), FullManifest());
  json root = json::parse(ReadBytes(folder / kManifestName));
  root.erase("xxh3");
  const json values[] = {nullptr,
                         true,
                         -1,
                         1.5,
                         "x",
                         "",
                         json::array(),
                         json::object(),
                         uint64_t{1} << 63,
                         1e300,
                         0,
                         1,
                         int64_t{1} << 62,
                         {1, 2}};
  const json places = root.flatten();
  int refused = 0, taken = 0;
  for (const auto& [pointer, old] : places.items()) {
    for (const json& value : values) {
      json other = root;
      other[json::json_pointer(pointer)] = value;
      PutManifest(folder, other.dump());
      const absl::Status status = ReadAll(folder.path());
      if (!status.ok()) {
        CHECK_MESSAGE(Contains(std::string(status.message()), folder.path().string()), pointer);
        ++refused;
      } else {
        ++taken;
      }
    }
  }
  CHECK(refused > 3 * taken);
  CHECK(taken > 0);  // the recipe's text, say
}

TEST_CASE("a manifest with bytes changed at random") {
  const TempFolder folder;
  WriteCheckpoint(folder.path(), 9, SomeTensors(), FullManifest());
  json root = json::parse(ReadBytes(folder / kManifestName));
  root.erase("xxh3");
  const std::string text = root.dump(1);
  RandomSequence random(31, 1);
  for (int round = 0; round < 8000; ++round) {
    std::string changed = text;
    const int edits = 1 + static_cast<int>(random.Below(3));
    for (int i = 0; i < edits; ++i) {
      const size_t at = random.Below(changed.size());
      switch (random.Below(4)) {
        case 0:
          changed[at] = static_cast<char>(random.Below(256));
          break;
        case 1:
          changed[at] = static_cast<char>('0' + random.Below(10));
          break;
        case 2:
          changed.erase(at, 1 + random.Below(20));
          break;
        default:
          changed.insert(at, changed.substr(random.Below(changed.size()), random.Below(30)));
      }
    }
    PutManifest(folder, changed);
    ReadAll(folder.path()).IgnoreError();  // neither a crash nor a read outside of a file
  }
  for (size_t bytes = 0; bytes < text.size(); bytes += 7) {
    PutManifest(folder, text.substr(0, bytes));
    REQUIRE_FALSE(ReadManifest(folder.path()).ok());
  }
}

TEST_CASE("any bit of a manifest that is not what was written") {
  const TempFolder folder;
  WriteCheckpoint(folder.path(), 9, SomeTensors(), FullManifest());
  const std::string text = ReadBytes(folder / kManifestName);
  // Without its name the hash is not looked at; all else is as it was.
  const size_t name = text.rfind("xxh3");
  for (size_t at = 0; at + 1 < text.size(); ++at) {
    if (at >= name && at < name + 4) continue;
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ (1 << at % 8));
    PutManifest(folder, changed);
    REQUIRE_FALSE_MESSAGE(ReadManifest(folder.path()).ok(), at);
  }
  std::string edited = text;
  edited.replace(edited.find("\"row\":31"), 8, "\"row\":32");
  PutManifest(folder, edited);
  CHECK(NotSaid(ReadManifest(folder.path()).status(), "damaged", "remove the key 'xxh3'") == "");
}

TEST_CASE("a key that stands twice is an error") {
  const TempFolder folder;
  WriteCheckpoint(folder.path(), 9, SomeTensors(), FullManifest());
  std::string text = ReadBytes(folder / kManifestName);
  text.insert(1, "\"step\": 9,");
  PutManifest(folder, text);
  CHECK(NotSaid(ReadManifest(folder.path()).status(), "step", "twice") == "");
}

}  // namespace
}  // namespace ftune
