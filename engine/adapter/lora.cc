#include "engine/adapter/lora.h"

#include <algorithm>
#include <cmath>
#include <regex>
#include <span>

#include "base/error.h"
#include "base/random.h"
#include "base/strings.h"
#include "engine/model/modules.h"

namespace ftune {
namespace {

// FNV-1a: keeps the draws of parameters and sites apart by name, whatever their number or order.
uint64_t HashName(std::string_view name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

// LoRA on a group of products that share their input. Without dropout the A matrices of all parts are one
// product.
class LoraLinear final : public LinearAdapter {
 public:
  LoraLinear(const LinearSite& site, const LoraOptions& options, const LoraTargets& targets,
             ParameterStore& store)
      : rank_(options.rank),
        scale_(static_cast<float>(options.alpha / static_cast<double>(options.rank))),
        dropout_(static_cast<float>(options.dropout)) {
    int64_t column = 0;
    for (const LinearPart& part : site.parts) {
      if (targets.Contains(part.module)) {
        Part p;
        p.site = HashName(part.module);
        p.first_column = column;
        p.out_features = part.out_features;
        p.a = &store.Declare(part.module + kLoraA, {rank_, site.in_features}, DType::kF32, true, true);
        parts_.push_back(p);
        modules_.push_back(part.module);
      }
      column += part.out_features;
    }
    for (size_t i = 0; i < parts_.size(); ++i) {
      parts_[i].b =
          &store.Declare(modules_[i] + kLoraB, {parts_[i].out_features, rank_}, DType::kF32, true, true);
    }
  }

  bool empty() const { return parts_.empty(); }

  void Bind() override {
    std::vector<Tensor> values, gradients;
    for (const Part& p : parts_) {
      values.push_back(p.a->value);
      gradients.push_back(p.a->gradient);
    }
    all_a_ = JoinRows(values);
    all_da_ = JoinRows(gradients);
  }

  void Forward(const Context& context, const Tensor& x, const Tensor& y, AdapterSaved* saved) const override {
    Backend& backend = context.backend;
    const Tensor low = backend.Allocate(x.rows(), ranks(), Category::kActivations);
    ForEachRun(context, x,
               [&](const Tensor& input, const Tensor& a, const Tensor&, int64_t first, const Part&) {
                 backend.MatMul(context.stream,
                                {.a = input, .b = a, .trans_b = true, .c = low.Cols(first, a.rows())});
               });
    if (saved != nullptr) saved->low = low;
    if (!y.defined()) return;
    for (size_t i = 0; i < parts_.size(); ++i) {
      backend.MatMul(context.stream, {.a = low.Cols(Column(i), rank_),
                                      .b = parts_[i].b->value,
                                      .trans_b = true,
                                      .c = y.Cols(parts_[i].first_column, parts_[i].out_features),
                                      .alpha = scale_,
                                      .beta = 1.0f});
    }
  }

  void BackwardInput(const Context& context, const Tensor& dy, const Tensor& dx,
                     AdapterSaved& saved) const override {
    Backend& backend = context.backend;
    saved.dlow = backend.Allocate(dy.rows(), ranks(), Category::kActivations);
    for (size_t i = 0; i < parts_.size(); ++i) {
      backend.MatMul(context.stream, {.a = dy.Cols(parts_[i].first_column, parts_[i].out_features),
                                      .b = parts_[i].b->value,
                                      .c = saved.dlow.Cols(Column(i), rank_),
                                      .alpha = scale_});
    }
    if (!dx.defined()) return;
    if (!drops(context)) {
      backend.MatMul(context.stream, {.a = saved.dlow, .b = all_a_, .c = dx, .beta = 1.0f});
      return;
    }
    const Tensor dinput = backend.Allocate(dx.rows(), dx.cols(), Category::kActivations);
    for (size_t i = 0; i < parts_.size(); ++i) {
      backend.MatMul(context.stream,
                     {.a = saved.dlow.Cols(Column(i), rank_), .b = parts_[i].a->value, .c = dinput});
      backend.Dropout(context.stream, dinput, Draw(context, parts_[i]), true, dx);
    }
  }

  void BackwardWeight(const Context& context, const Tensor& dy, const Tensor& x,
                      const AdapterSaved& saved) const override {
    Backend& backend = context.backend;
    for (size_t i = 0; i < parts_.size(); ++i) {
      backend.MatMul(context.stream, {.a = dy.Cols(parts_[i].first_column, parts_[i].out_features),
                                      .trans_a = true,
                                      .b = saved.low.Cols(Column(i), rank_),
                                      .c = parts_[i].b->gradient,
                                      .alpha = scale_,
                                      .beta = 1.0f});
    }
    ForEachRun(
        context, x, [&](const Tensor& input, const Tensor& a, const Tensor& da, int64_t first, const Part&) {
          backend.MatMul(
              context.stream,
              {.a = saved.dlow.Cols(first, a.rows()), .trans_a = true, .b = input, .c = da, .beta = 1.0f});
        });
  }

 private:
  struct Part {
    Parameter* a = nullptr;
    Parameter* b = nullptr;
    int64_t first_column = 0;  // in y
    int64_t out_features = 0;
    uint64_t site = 0;  // keys the dropout
  };

  int64_t ranks() const { return rank_ * static_cast<int64_t>(parts_.size()); }
  int64_t Column(size_t part) const { return rank_ * static_cast<int64_t>(part); }
  bool drops(const Context& context) const { return context.training && dropout_ > 0.0f; }
  DropoutArgs Draw(const Context& context, const Part& part) const {
    return {.probability = dropout_,
            .seed = context.seed,
            .step = context.step,
            .site = part.site,
            .first_token = context.batch.first_token};
  }

  // Calls run(input, A, dA, first column of `low`, part): once for all parts together, or, where each part
  // drops other elements of x, once a part with its own input.
  template <typename Run>
  void ForEachRun(const Context& context, const Tensor& x, const Run& run) const {
    if (!drops(context)) {
      run(x, all_a_, all_da_, int64_t{0}, parts_.front());
      return;
    }
    const Tensor input = context.backend.Allocate(x.rows(), x.cols(), Category::kActivations);
    for (size_t i = 0; i < parts_.size(); ++i) {
      context.backend.Dropout(context.stream, x, Draw(context, parts_[i]), false, input);
      run(input, parts_[i].a->value, parts_[i].a->gradient, Column(i), parts_[i]);
    }
  }

  int64_t rank_;
  float scale_;
  float dropout_;
  std::vector<Part> parts_;
  std::vector<std::string> modules_;
  Tensor all_a_;  // [ranks, in]
  Tensor all_da_;
};

bool EndsWithModule(const std::string& module, const std::string& suffix) {
  if (module == suffix) return true;
  return module.size() > suffix.size() && module.ends_with(suffix) &&
         module[module.size() - suffix.size() - 1] == '.';
}

std::string LastComponent(const std::string& module) { return module.substr(module.rfind('.') + 1); }

}  // namespace

absl::StatusOr<LoraTargets> LoraTargets::Resolve(const LoraOptions& options, const ModelConfig& config) {
  const std::vector<std::string> linears = LinearModules(config);
  LoraTargets targets;
  const auto no_match = [&](const std::string& pattern) {
    std::vector<std::string> known;
    for (const std::string& module : linears) known.push_back(LastComponent(module));
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    return UsageError({.key = "adapter.target_modules",
                       .found = StrCat("'", pattern, "', which matches no linear module of the model"),
                       .expected = StrCat("all-linear, or names among ", StrJoin(known, ", "))});
  };
  if (const auto* names = std::get_if<std::vector<std::string>>(&options.target_modules)) {
    for (const std::string& name : *names) {
      const size_t before = targets.modules_.size();
      for (const std::string& module : linears) {
        if (EndsWithModule(module, name)) targets.modules_.push_back(module);
      }
      if (targets.modules_.size() == before) return no_match(name);
    }
  } else {
    const std::string& text = std::get<std::string>(options.target_modules);
    if (text == "all-linear") {
      targets.modules_ = linears;
    } else {
      try {
        const std::regex pattern(text);  // PEFT: re.fullmatch on the module's name
        for (const std::string& module : linears) {
          if (std::regex_match(module, pattern)) targets.modules_.push_back(module);
        }
      } catch (const std::regex_error& e) {
        return UsageError({.key = "adapter.target_modules",
                           .found = StrCat("'", text, "', not a regular expression (", e.what(), ")"),
                           .expected = "all-linear, a list of names, or a regular expression"});
      }
      if (targets.modules_.empty()) return no_match(text);
    }
  }
  std::sort(targets.modules_.begin(), targets.modules_.end());
  targets.modules_.erase(std::unique(targets.modules_.begin(), targets.modules_.end()),
                         targets.modules_.end());
  for (const std::string& module : targets.modules_) targets.suffixes_.push_back(LastComponent(module));
  std::sort(targets.suffixes_.begin(), targets.suffixes_.end());
  targets.suffixes_.erase(std::unique(targets.suffixes_.begin(), targets.suffixes_.end()),
                          targets.suffixes_.end());
  return targets;
}

bool LoraTargets::Contains(const std::string& module) const {
  return std::binary_search(modules_.begin(), modules_.end(), module);
}

AdapterFactory MakeLoraFactory(const LoraOptions& options, LoraTargets targets) {
  return [options, targets = std::move(targets)](const LinearSite& site,
                                                 ParameterStore& store) -> std::unique_ptr<LinearAdapter> {
    auto lora = std::make_unique<LoraLinear>(site, options, targets, store);
    if (lora->empty()) return nullptr;
    return lora;
  };
}

void InitLoraValues(Backend& backend, Stream stream, std::vector<Parameter*> parameters, uint64_t seed) {
  for (Parameter* p : parameters) {
    if (p->name.ends_with(kLoraB)) {
      backend.Zero(stream, p->value);
    } else if (p->name.ends_with(kLoraA)) {
      const float bound = 1.0f / std::sqrt(static_cast<float>(p->shape[1]));
      RandomSequence random(seed, HashName(p->name));
      std::vector<float> values(p->size());
      for (float& value : values) value = (2.0f * random.Uniform() - 1.0f) * bound;
      backend.Upload(stream, std::as_bytes(std::span(values)), p->value);
    }
  }
}

}  // namespace ftune
