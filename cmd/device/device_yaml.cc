#include "cmd/device/device_yaml.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/device/efficiency.h"
#include "cmd/recipe/errors.h"
#include "cmd/recipe/nearest.h"
#include "cmd/recipe/node.h"
#include "cmd/recipe/source.h"
#include "cmd/recipe/types.h"

namespace ftune {
namespace {

// An entry as it is written.
struct Entry {
  std::string name;
  std::optional<int64_t> memory, runtime;
  int64_t per_host = 1;
  double fragmentation = 0.0;
  DType activations = DType::kF32;
  bool cpu = false;
  std::map<DType, double> peak;
  std::optional<double> memory_bandwidth, call_seconds;
  std::optional<Efficiency> efficiency;
  std::map<DType, std::vector<ProductRate>> products;
  std::map<OpClass, OpRate> rates;
  std::optional<LinkModel> in_host, network, to_host, disk;
};

const Range kPositive = {.above = 0.0};
const Range kNotNegative = {.min = 0.0};
const Range kShare = {.above = 0.0, .max = 1.0};

// What the keys of a map stand for.
template <class K>
struct Words {
  std::vector<std::string> known;
  std::function<std::optional<K>(const std::string&)> find;
  std::function<std::string(K)> name;
};

// A map of such keys, each at most once.
template <class K, class T>
Type<std::map<K, T>> WordMap(std::string expected, Words<K> words, Type<T> type) {
  return {expected, Json{{"type", "object"}, {"additionalProperties", type.schema}},
          [=](const Node& node, const Where& where) -> std::optional<std::map<K, T>> {
            if (!node.is_map()) {
              where.Wrong(node, expected);
              return std::nullopt;
            }
            const size_t errors_before = where.errors->size();
            std::map<K, T> values;
            for (const Node::Entry& entry : node.entries) {
              const Where here = where.Sub("." + entry.key);
              const std::optional<K> key = words.find(entry.key);
              if (!key) {
                const std::optional<std::string> meant = Nearest(entry.key, words.known);
                here.Add(entry.line, {.message = "unknown key",
                                      .expected = StrCat("one of ", StrJoin(words.known, ", ")),
                                      .hint = meant ? StrCat("did you mean ", *meant, "?") : ""});
                continue;
              }
              std::optional<T> value = type.read(entry.value, here);
              if (value && !values.emplace(*key, *std::move(value)).second) {
                here.Repeated(entry.line, 0, "keep one");
              }
            }
            return where.errors->size() == errors_before ? std::optional(std::move(values)) : std::nullopt;
          },
          [=](const std::map<K, T>& values) {
            Node map = values.empty() ? Node() : Node::Map();
            for (const auto& [key, value] : values) map.At(words.name(key)) = type.write(value);
            return map;
          }};
}

Words<DType> DTypeWords() {
  return {{"f32", "bf16", "f16", "nf4", "q4_k", "q8_0"},
          [](const std::string& word) -> std::optional<DType> {
            const absl::StatusOr<DType> dtype = ParseDType(word);
            return dtype.ok() && IsFloat(*dtype) ? std::optional(*dtype) : std::nullopt;
          },
          [](DType dtype) { return std::string(Name(dtype)); }};
}

Words<OpClass> OpWords() {
  return {{kOpClassNames.begin(), kOpClassNames.end()},
          [](const std::string& word) -> std::optional<OpClass> {
            const auto found = std::find(kOpClassNames.begin(), kOpClassNames.end(), word);
            if (found == kOpClassNames.end()) return std::nullopt;
            return static_cast<OpClass>(found - kOpClassNames.begin());
          },
          [](OpClass op) { return std::string(Name(op)); }};
}

Type<Efficiency> EfficiencyType() {
  const Type<double> share = NumberType(kShare);
  return RecordOf<Efficiency>(
      {MakeField("product", &Efficiency::product, share, "of the peak"),
       MakeField("attention", &Efficiency::attention, share, "of the peak"),
       MakeField("attention_backward", &Efficiency::attention_backward, share, "of the peak"),
       MakeField("stream", &Efficiency::stream, share, "of memory_bandwidth")},
      "a map of product, attention, attention_backward and stream");
}

Type<ProductRate> ProductRateType() {
  return RecordOf<ProductRate>(
      {MakeField("smallest", &ProductRate::smallest, IntType(1), "of the three sizes"),
       MakeField("flops", &ProductRate::flops, NumberType(kPositive), "a second")},
      "a map of smallest and flops");
}

Type<OpRate> OpRateType() {
  const Type<double> number = NumberType(kNotNegative);
  return RecordOf<OpRate>({MakeField("bytes", &OpRate::bytes, number, "a second; 0: no limit"),
                           MakeField("flops", &OpRate::flops, number, "a second; 0: no limit"),
                           MakeField("seconds", &OpRate::seconds, number, "each call")},
                          "a map of bytes, flops and seconds");
}

Type<LinkModel> LinkType() {
  return RecordOf<LinkModel>(
      {MakeField("bandwidth", &LinkModel::bandwidth, NumberType(kPositive), "bytes a second, each way"),
       MakeField("latency", &LinkModel::latency, NumberType(kNotNegative), "seconds")},
      "a map of bandwidth and latency");
}

std::vector<Field<Entry>> Fields() {
  const Type<std::optional<LinkModel>> link = NullOr(LinkType());
  return {
      MakeField("name", &Entry::name, TextType("a name"), "in plans"),
      MakeField("memory", &Entry::memory, NullOr(SizeType()), "of a device"),
      MakeField("per_host", &Entry::per_host, IntType(1, kMostRanks), "devices of a host"),
      MakeField("runtime", &Entry::runtime, NullOr(SizeType()), "that a rank has beside its tensors"),
      MakeField("fragmentation", &Entry::fragmentation, NumberType({.min = 0.0, .below = 1.0}),
                "bytes that an allocator cannot use, for each byte of tensors"),
      MakeField("activations", &Entry::activations,
                OneOf<DType>({{{"f32"}, DType::kF32}, {{"bf16"}, DType::kBF16}, {{"f16"}, DType::kF16}}),
                "their type"),
      MakeField("cpu", &Entry::cpu, BoolType(), "whether ranks share their host's memory"),
      MakeField("peak", &Entry::peak,
                WordMap<DType, double>("a map of types and FLOP/s", DTypeWords(), NumberType(kPositive)),
                "dense FLOP/s of products"),
      MakeField("memory_bandwidth", &Entry::memory_bandwidth, NullOr(NumberType(kPositive)),
                "bytes a second"),
      MakeField("call_seconds", &Entry::call_seconds, NullOr(NumberType(kNotNegative)),
                "that the smallest op takes"),
      MakeField("efficiency", &Entry::efficiency, NullOr(EfficiencyType()), "what is reached of those"),
      MakeField("products", &Entry::products,
                WordMap<DType, std::vector<ProductRate>>(
                    "a map of types and lists of rates", DTypeWords(),
                    ListOf(ProductRateType(), "a list of {smallest, flops}", {.min_items = 1})),
                "FLOP/s that products reach"),
      MakeField("rates", &Entry::rates,
                WordMap<OpClass, OpRate>("a map of kinds of ops and rates", OpWords(), OpRateType()),
                "what other ops reach"),
      MakeField("in_host", &Entry::in_host, link, "between devices of a host"),
      MakeField("network", &Entry::network, link, "between hosts"),
      MakeField("to_host", &Entry::to_host, link, "between a device and its host's memory"),
      MakeField("disk", &Entry::disk, link, "of a host, for all its ranks together"),
  };
}

// What is missing or contradicts itself once all keys are read.
void CheckEntry(const Entry& entry, const Where& where) {
  const auto missing = [&](std::string_view key, std::string expected, std::string hint) {
    where.Sub(key).Add(0, {.message = "missing", .expected = std::move(expected), .hint = std::move(hint)});
  };
  if (entry.name.empty()) missing("name", "a name", "");
  if (!entry.memory) missing("memory", "a size such as 80GB", "add the bytes that a device has");
  for (const auto& [key, link] : {std::pair("in_host", entry.in_host), {"network", entry.network}}) {
    if (!link) missing(key, "a map of bandwidth and latency", "");
  }
  for (const auto& [dtype, rates] : entry.products) {
    const std::string key = StrCat("products.", Name(dtype));
    const auto by_size = [](const ProductRate& a, const ProductRate& b) { return a.smallest < b.smallest; };
    if (std::any_of(rates.begin(), rates.end(), [](const ProductRate& rate) { return rate.flops == 0; })) {
      missing(StrCat(key, ".flops"), "a number above 0", "");
    } else if (std::adjacent_find(rates.begin(), rates.end(), std::not_fn(by_size)) != rates.end()) {
      where.Sub(key).Add(0, {.message = "sizes are not in ascending order", .hint = "sort them"});
    }
  }
  if (!entry.efficiency) {
    if (entry.products.empty()) missing("products", "a rate for each type", "or give `efficiency`");
    for (size_t op = 0; op < kOpClasses; ++op) {
      if (entry.rates.contains(static_cast<OpClass>(op))) continue;
      missing(StrCat("rates.", kOpClassNames[op]), "a rate", "or give `efficiency`");
    }
    return;
  }
  const Efficiency& reached = *entry.efficiency;
  for (const auto& [name, share] : {std::pair("attention", reached.attention),
                                    {"attention_backward", reached.attention_backward},
                                    {"stream", reached.stream}}) {
    if (share == 0.0) missing(StrCat("efficiency.", name), "a number above 0.0 to 1.0", "");
  }
  if (!entry.memory_bandwidth) missing("memory_bandwidth", "bytes a second", "");
  if (!entry.peak.contains(entry.activations)) {
    missing(StrCat("peak.", Name(entry.activations)), "FLOP/s of the activations' type", "");
  }
}

DeviceModel ToModel(Entry entry) {
  DeviceModel device = {.name = std::move(entry.name),
                        .memory = *entry.memory,
                        .per_host = static_cast<int>(entry.per_host),
                        .runtime = entry.runtime.value_or(0),
                        .fragmentation = entry.fragmentation,
                        .activations = entry.activations,
                        .is_cpu = entry.cpu,
                        .peak = std::move(entry.peak),
                        .products = std::move(entry.products),
                        .rates = {},
                        .in_host = *entry.in_host,
                        .network = *entry.network,
                        .to_host = entry.to_host.value_or(LinkModel()),
                        .disk = entry.disk.value_or(LinkModel())};
  if (entry.efficiency) {
    const DataSheet sheet = {.peak = device.peak,
                             .activations = device.activations,
                             .memory_bandwidth = *entry.memory_bandwidth,
                             .call_seconds = entry.call_seconds.value_or(0.0)};
    device.products.merge(ProductsOf(sheet, *entry.efficiency));
    device.rates = RatesOf(sheet, *entry.efficiency);
  }
  for (const auto& [op, rate] : entry.rates) device.rates[static_cast<size_t>(op)] = rate;
  return device;
}

Entry ToEntry(const DeviceModel& device) {
  const auto link = [](const LinkModel& model) {
    return model.bandwidth > 0 ? std::optional(model) : std::nullopt;
  };
  Entry entry = {.name = device.name,
                 .memory = device.memory,
                 .runtime = device.runtime > 0 ? std::optional(device.runtime) : std::nullopt,
                 .per_host = device.per_host,
                 .fragmentation = device.fragmentation,
                 .activations = device.activations,
                 .cpu = device.is_cpu,
                 .peak = device.peak,
                 .products = device.products,
                 .in_host = link(device.in_host),
                 .network = link(device.network),
                 .to_host = link(device.to_host),
                 .disk = link(device.disk)};
  for (size_t op = 0; op < kOpClasses; ++op) entry.rates[static_cast<OpClass>(op)] = device.rates[op];
  return entry;
}

}  // namespace

absl::StatusOr<DeviceModel> ParseDevice(std::string_view text, const std::string& file) {
  FTUNE_RETURN_IF_ERROR(CheckRecipeText(text, file));
  FTUNE_ASSIGN_OR_RETURN(const Node root, ParseYaml(text, file));
  if (!root.is_map()) {
    return UsageError({.file = file,
                       .line = root.line,
                       .found = DescribeNode(root),
                       .expected = "a device: lines of `key: value`",
                       .hint = "`ftune bench` writes one"});
  }
  std::vector<ErrorDetail> errors;
  const Where where = {.file = file, .key = "", .errors = &errors};
  const std::vector<Field<Entry>> fields = Fields();
  std::vector<std::string> names;
  for (const Field<Entry>& field : fields) names.push_back(field.name);
  const std::vector<std::optional<size_t>> match = MatchFields(root, names, where);
  Entry entry;
  for (size_t i = 0; i < match.size(); ++i) {
    if (match[i]) fields[*match[i]].read(root.entries[i].value, where.Sub(names[*match[i]]), entry);
  }
  for (ErrorDetail& error : errors) {
    if (error.key.starts_with('.')) error.key.erase(0, 1);  // an unknown key at the top
  }
  if (errors.empty()) CheckEntry(entry, where);
  if (!errors.empty()) return RecipeStatus(std::move(errors));
  return ToModel(std::move(entry));
}

absl::StatusOr<DeviceModel> ReadDevice(const std::string& path) {
  FTUNE_ASSIGN_OR_RETURN(const std::string text, ReadRecipeText(path));
  return ParseDevice(text, path);
}

std::string WriteDevice(const DeviceModel& device) {
  const Entry entry = ToEntry(device);
  Node map = Node::Map();
  for (const Field<Entry>& field : Fields()) {
    Node value = field.write(entry);
    if (!value.is_null()) map.At(field.name) = std::move(value);
  }
  return WriteYaml(map);
}

}  // namespace ftune
