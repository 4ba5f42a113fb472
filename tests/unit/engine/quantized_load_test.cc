// Weights that are quantised while they are loaded: from every type of source the same bytes as from its
// values in f32, for the decoder's linears only; what cannot be quantised; what an adapter's folder says of
// its base.
#include <doctest/doctest.h>

#include <cmath>
#include <fstream>

#include "base/block_quant.h"
#include "base/convert.h"
#include "base/error.h"
#include "engine/format/adapter_base.h"
#include "engine/format/model_tensors.h"
#include "engine/format/quantized_weights.h"
#include "tests/unit/base/temp_folder.h"
#include "tests/unit/engine/tiny.h"

namespace ftune::testing {
namespace {

constexpr DType kTypes[] = {DType::kNF4, DType::kFP4, DType::kInt8};

std::vector<std::byte> Reference(DType dtype, const std::vector<float>& values) {
  const auto count = static_cast<int64_t>(values.size());
  const BlockQuantLayout layout(dtype, count);
  std::vector<std::byte> bytes(layout.bytes);
  std::vector<float> scales(layout.blocks);
  QuantizeBlocks(dtype, values, 0, layout.blocks, bytes.data(), scales.data());
  QuantizeScales(dtype, count, scales, bytes.data());
  return bytes;
}

// A tensor with random bytes of its type; scales of GGML's blocks are of a usual size.
std::vector<std::byte> RandomBytes(DType dtype, int64_t count) {
  RandomSequence random(9, static_cast<uint64_t>(dtype));
  std::vector<float> values(count);
  for (float& value : values) value = random.Uniform() - 0.5f;
  std::vector<std::byte> bytes(BytesFor(dtype, count));
  if (IsConversionTarget(dtype)) {
    ConvertFromF32(dtype, values.data(), count, bytes.data());
    return bytes;
  }
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.Next());
  const uint16_t scale = FloatToHalf(0.01f);
  for (int64_t block = 0; block < count / BlockSize(dtype); ++block) {
    for (int i = 0; i < 2; ++i) std::memcpy(&bytes[block * BlockBytes(dtype) + 2 * i], &scale, 2);
  }
  return bytes;
}

absl::Status Load(Backend& backend, const SourceTensor& tensor, DType dtype, Parameter& parameter) {
  parameter.name = tensor.name;
  parameter.shape = tensor.shape;
  parameter.dtype = dtype;
  parameter.value = backend.Allocate(dtype, tensor.shape[0], tensor.shape[1], Category::kWeights);
  return LoadQuantized(backend, Stream(), tensor, parameter);
}

TEST_CASE("every source type is quantised by way of its values in f32, in pieces or not") {
  auto cpu = MakeCpu(2);
  for (const DType source :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1, DType::kQ8_0}) {
    // The second has more than a million values, which are not staged at once; blocks of 64 run over its
    // rows.
    for (const auto& [rows, cols] : {std::pair<int64_t, int64_t>(6, 96), {1100, 1056}}) {
      for (const int64_t heads : {int64_t{0}, int64_t{1}}) {
        CAPTURE(Name(source));
        CAPTURE(rows);
        CAPTURE(heads);
        const std::vector<std::byte> bytes = RandomBytes(source, rows * cols);
        const SourceTensor tensor = {.name = "w",
                                     .dtype = source,
                                     .shape = {rows, cols},
                                     .bytes = bytes,
                                     .file = "f",
                                     .interleaved_heads = heads};
        std::vector<std::byte> ordered(bytes.size());
        CopySourceTensor(tensor, ordered.data());
        std::vector<float> values(rows * cols);
        ConvertToF32(source, ordered.data(), rows * cols, values.data());
        Parameter parameter;
        const DType dtype = kTypes[static_cast<size_t>(source) % 3];
        REQUIRE(Load(*cpu, tensor, dtype, parameter).ok());
        std::vector<std::byte> got(BytesFor(dtype, rows * cols));
        cpu->Download(Stream(), parameter.value, got);
        CHECK(got == Reference(dtype, values));
      }
    }
  }
}

TEST_CASE("a value that is not finite is refused, with the tensor's name") {
  auto cpu = MakeCpu();
  for (const DType dtype : kTypes) {
    for (const float bad : {NAN, INFINITY}) {
      std::vector<float> values(192, 0.5f);
      values[100] = bad;
      const SourceTensor tensor = {.name = "model.layers.0.mlp.up_proj.weight",
                                   .shape = {2, 96},
                                   .bytes = std::as_bytes(std::span(values)),
                                   .file = "model.safetensors"};
      Parameter parameter;
      const absl::Status status = Load(*cpu, tensor, dtype, parameter);
      REQUIRE(!status.ok());
      CHECK(status.message().find("model.safetensors") != std::string::npos);
      CHECK(status.message().find("model.layers.0.mlp.up_proj.weight") != std::string::npos);
      CHECK(status.message().find(std::string(QuantizationName(dtype))) != std::string::npos);
    }
  }
}

TEST_CASE("only the decoder's linears are quantised") {
  TinyOptions options;
  options.lora = true;
  options.quantize = DType::kNF4;
  auto cpu = MakeCpu();
  TinyTrainer trainer(*cpu, options);
  const std::vector<std::string> modules = LinearModules(options.config);
  size_t quantized = 0;
  for (const Parameter* p : trainer.model->parameters()) {
    if (p->dtype == DType::kF32) continue;
    CHECK(p->dtype == DType::kNF4);
    const std::string module = p->name.substr(0, p->name.rfind('.'));
    CHECK(std::find(modules.begin(), modules.end(), module) != modules.end());
    ++quantized;
  }
  CHECK(quantized == modules.size());
  const QuantizedWeights found = FindQuantized(*trainer.model, trainer.weights);
  CHECK(found.count == static_cast<int64_t>(modules.size()));
  CHECK(found.source_bytes > 6 * found.bytes);
  CHECK(found.twice == 0);
}

TEST_CASE("what is written of a quantised base is its dequantised values, with the adapter's change") {
  TinyOptions options;
  options.lora = true;
  options.quantize = DType::kNF4;
  auto cpu = MakeCpu();
  TinyTrainer trainer(*cpu, options);
  const double scale = options.lora_options.alpha / static_cast<double>(options.lora_options.rank);
  const LoraTargets targets = *LoraTargets::Resolve(options.lora_options, options.config);
  for (const double lora_scale : {0.0, scale}) {
    for (const OutputTensor& tensor :
         ModelTensors(*cpu, Stream(), *trainer.model, DType::kF32, lora_scale != 0.0 ? &targets : nullptr)) {
      const Parameter& p = *trainer.model->Find(tensor.name);
      if (p.dtype != DType::kNF4) continue;
      std::vector<float> got(p.size()), want(p.size());
      REQUIRE(tensor.fill(reinterpret_cast<std::byte*>(got.data())).ok());
      DequantizeRange(p.dtype, p.value.bytes(), p.size(), 0, p.size(), want.data());
      if (lora_scale != 0.0) {
        const std::string module = p.name.substr(0, p.name.rfind('.'));
        const std::vector<float> a = trainer.Read(trainer.model->Find(module + kLoraA)->value);
        const std::vector<float> b = trainer.Read(trainer.model->Find(module + kLoraB)->value);
        const int64_t rank = options.lora_options.rank, in = p.shape[1];
        for (int64_t i = 0; i < p.size(); ++i) {
          double sum = 0;
          for (int64_t r = 0; r < rank; ++r)
            sum += static_cast<double>(b[i / in * rank + r]) * a[r * in + i % in];
          want[i] = static_cast<float>(want[i] + lora_scale * sum);
        }
      }
      for (int64_t i = 0; i < p.size(); ++i)
        REQUIRE(got[i] == doctest::Approx(want[i]).epsilon(1e-5).scale(1.0));
    }
  }
}

TEST_CASE("weights that are quantised as a whole are not joined, even where they lie side by side") {
  auto cpu = MakeCpu();
  for (const DType dtype : {DType::kF32, DType::kQ8_0, DType::kInt8, DType::kNF4}) {
    ParameterStore store;
    for (const char* name : {"a", "b"})
      store.Declare(name, {64, 64}, Placement::Replicate(), dtype, false, true);
    store.Allocate(*cpu);
    const Tensor& a = store.parameters()[0].value;
    const Tensor joined = JoinRows({a, store.parameters()[1].value});
    CHECK(joined.defined() == !IsQuantizedWhole(dtype));
    const Tensor alone = JoinRows({a.Rows(3, 5)});
    CHECK(alone.rows() == 5);
    CHECK(alone.first() == a.Rows(3, 5).first());
    CHECK(alone.offset() == a.Rows(3, 5).offset());
  }
}

TEST_CASE("names of quantisations") {
  for (const char* name : {"none", "nf4", "fp4", "int8"}) {
    const auto dtype = ParseQuantization(name);
    REQUIRE(dtype.ok());
    CHECK(QuantizationName(*dtype) == name);
  }
  CHECK(*ParseQuantization("none") == std::nullopt);
  for (const char* name : {"", "NF4", "q4_0", "int4", "f32"}) {
    const auto dtype = ParseQuantization(name);
    REQUIRE(!dtype.ok());
    CHECK(dtype.status().message() == "one of none, nf4, fp4, int8");
  }
}

TEST_CASE("an adapter's folder says how its base was quantised") {
  const TempFolder folder;
  const std::filesystem::path path = folder.path() / "adapter";
  CHECK(*ReadAdapterBase(path) == std::nullopt);
  for (const std::optional<DType> dtype :
       {std::optional(DType::kNF4), std::optional(DType::kInt8), std::optional<DType>()}) {
    REQUIRE(WriteAdapterBase(path, dtype).ok());
    CHECK(*ReadAdapterBase(path) == dtype);
  }
  CHECK(!std::filesystem::exists(path / kAdapterBaseFile));
  for (const char* text : {"{\"quantize\": \"int4\"}", "{\"quantize\": 4}", "{}", "[]", "{", ""}) {
    CAPTURE(text);
    std::ofstream(path / kAdapterBaseFile) << text;
    const auto read = ReadAdapterBase(path);
    REQUIRE(!read.ok());
    CHECK(read.status().message().find(kAdapterBaseFile) != std::string::npos);
  }
}

}  // namespace
}  // namespace ftune::testing
