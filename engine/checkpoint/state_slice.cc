#include "engine/checkpoint/state_slice.h"

#include <algorithm>

#include "base/strings.h"
#include "engine/shard/tensor_ranges.h"

namespace ftune {
namespace {

// Ranks that have the same deal it out among them in multiples of 256 KiB of f32, where every optimizer can
// cut: of what is large each gets a few pieces, not thousands.
constexpr int64_t kDealt = 65536;
constexpr int64_t kPiecesOfARank = 4;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Whether there is state whose places are not those of elements, of a slice of the parameter.
bool KeptLocally(const Parameter& parameter, const std::vector<StateSpec>& specs) {
  return parameter.placement().kind == PlacementKind::kShard &&
         std::any_of(specs.begin(), specs.end(), [](const StateSpec& spec) { return spec.unit != 1; });
}

// Values of a state that are of `part`, of the parameter's first element on; none where they are another
// part's.
FlatRange ValuesOf(const StateSpec& spec, const FlatRange& part) {
  if (spec.unit == StateSpec::kOfWhole) return {0, part.begin == 0 ? spec.size : 0};
  return {part.begin / spec.unit, CeilDiv(part.count, spec.unit)};
}

StateSlice SliceOfState(const ParameterStore& store, const Parameter& p, const FlatRange& owned,
                        const FlatRange& part, const StateSpec& spec, bool local) {
  StateSlice slice = {.store = &store,
                      .parameter = &p,
                      .state = std::string(spec.name),
                      .kept_as = std::string(spec.name),
                      .dtype = spec.dtype};
  const FlatRange values = ValuesOf(spec, part);
  slice.values = {values.begin - ValuesOf(spec, owned).begin, values.count};
  if (spec.unit == 1 && !local) {
    slice.shape = p.shape;
    slice.regions = RegionsOf(p, part);
    return slice;
  }
  if (local) {
    StrAppend(slice.state, "@tensor=", p.position.rank, "/", p.position.size);
  }
  slice.shape = {spec.unit == StateSpec::kOfWhole ? spec.size : CeilDiv(p.size(), spec.unit)};
  slice.regions = {{{values.begin}, {values.count}}};
  return slice;
}

// Deals out work, in pieces of about the same size, to ranks that all have it.
class Dealer {
 public:
  Dealer(int rank, int ranks) : rank_(rank), dealt_(ranks) {}

  // This rank's parts of a range of local elements, joined where they touch.
  std::vector<FlatRange> PartsOf(const FlatRange& range, bool whole) {
    std::vector<FlatRange> parts;
    const int64_t share = CeilDiv(range.count, kPiecesOfARank * std::ssize(dealt_));
    const int64_t piece = std::max<int64_t>(1, CeilDiv(share, kDealt)) * kDealt;
    for (int64_t at = range.begin; at < range.end();) {
      const int64_t end = whole ? range.end() : std::min(range.end(), (at / piece + 1) * piece);
      const auto least = std::min_element(dealt_.begin(), dealt_.end());
      *least += end - at;
      if (least - dealt_.begin() == rank_) {
        if (!parts.empty() && parts.back().end() == at) {
          parts.back().count += end - at;
        } else {
          parts.push_back({at, end - at});
        }
      }
      at = end;
    }
    return parts;
  }

 private:
  int rank_;
  std::vector<int64_t> dealt_;
};

// What this rank has, in `ranges` of the block's flat tensor, of what compressed sums lack.
void AddOwed(const Model& model, const ModelShards& shards, size_t block,
             const std::vector<FlatRange>& ranges, std::vector<StateSlice>& all) {
  if (shards.compressed() == nullptr) return;
  const FlatRange has = shards.compressed()->owed(block).range;
  const ParameterStore& store = std::as_const(*model.blocks()[block]).store();
  for (const Parameter& p : store.parameters()) {
    if (!p.trainable) continue;
    for (const FlatRange& range : ranges) {
      const FlatRange part = Intersect(Intersect(range, has), {p.offset, p.size()});
      if (part.count == 0) continue;
      all.push_back({.store = &store,
                     .parameter = &p,
                     .state = std::string(kOwedName),
                     .kept_as = std::string(kOwedName),
                     .block = block,
                     .dtype = DType::kF32,
                     .shape = p.shape,
                     .values = {part.begin - has.begin, part.count},
                     .regions = RegionsOf(p, {part.begin - p.offset, part.count})});
    }
  }
}

}  // namespace

FlatRange OwnedPart(const ParameterStore& store, const Parameter& parameter) {
  const FlatRange part = Intersect({parameter.offset, parameter.size()}, store.owned());
  return {part.begin - parameter.offset, part.count};
}

Tensor OwnedValues(const ParameterStore& store, const Parameter& parameter) {
  const FlatRange part = Intersect({parameter.offset, parameter.size()}, store.owned());
  return store.owned_values().Cols(part.begin - store.owned().begin, part.count);
}

std::vector<StateSlice> SlicesOf(const ParameterStore& store, const Parameter& parameter,
                                 const FlatRange& owned, const FlatRange& part,
                                 const std::vector<StateSpec>& specs) {
  const bool has_master = !specs.empty() && specs.front().name == kMasterName;
  std::vector<StateSlice> slices = {{.store = &store,
                                     .parameter = &parameter,
                                     .kept_as = has_master ? std::string(kMasterName) : "",
                                     .dtype = has_master ? DType::kF32 : parameter.dtype,
                                     .shape = parameter.shape,
                                     .values = {part.begin - owned.begin, part.count},
                                     .regions = RegionsOf(parameter, part)}};
  const bool local = KeptLocally(parameter, specs);
  for (const StateSpec& spec : specs) {
    if (spec.name == kMasterName) continue;
    StateSlice slice = SliceOfState(store, parameter, owned, part, spec, local);
    if (slice.values.count > 0) slices.push_back(std::move(slice));
  }
  return slices;
}

std::vector<StateSlice> SlicesToWrite(const Model& model, const ModelShards& shards,
                                      const Optimizer& optimizer) {
  const Communicator& copies = shards.groups().copies();
  Dealer dealer(copies.rank(), copies.size());
  std::vector<StateSlice> all;
  for (size_t block = 0; block < model.blocks().size(); ++block) {
    if (model.blocks()[block]->copy()) continue;  // the other home writes it
    const ParameterStore& store = std::as_const(*model.blocks()[block]).store();
    const std::vector<FlatRange> counted = CountedRangesOf(store);
    AddOwed(model, shards, block, counted, all);
    for (const Parameter& p : store.parameters()) {
      const FlatRange owned = OwnedPart(store, p);
      if (!p.trainable || owned.count == 0) continue;
      const std::vector<StateSpec> specs = optimizer.SpecsOf(p);
      const bool local = KeptLocally(p, specs);
      const bool whole = std::any_of(specs.begin(), specs.end(),
                                     [](const StateSpec& spec) { return spec.unit == StateSpec::kOfWhole; });
      const auto add = [&](const FlatRange& range, bool values, bool states) {
        for (const FlatRange& part : dealer.PartsOf(range, whole)) {
          for (StateSlice& slice : SlicesOf(store, p, owned, part, specs)) {
            if (slice.state.empty() ? values : states) all.push_back(std::move(slice));
          }
        }
      };
      // Of elements that ranks of the tensor axis hold alike, the first has the say; of what each keeps in
      // its own way all have.
      for (const FlatRange& range : counted) {
        const FlatRange part = Intersect({range.begin - p.offset, range.count}, owned);
        if (part.count > 0) add(part, true, !local);
      }
      if (local) add(owned, false, true);
    }
  }
  return all;
}

std::vector<StateSlice> SlicesToRead(const Model& model, const ModelShards& shards,
                                     const Optimizer& optimizer) {
  std::vector<StateSlice> all;
  for (size_t block = 0; block < model.blocks().size(); ++block) {
    const ParameterStore& store = std::as_const(*model.blocks()[block]).store();
    for (const Parameter& p : store.parameters()) {
      const FlatRange owned = OwnedPart(store, p);
      if (!p.trainable || owned.count == 0) continue;
      for (StateSlice& slice : SlicesOf(store, p, owned, owned, optimizer.SpecsOf(p)))
        all.push_back(std::move(slice));
    }
    AddOwed(model, shards, block, {{0, store.trainable_size()}}, all);
  }
  return all;
}

}  // namespace ftune
