#include "cmd/recipe/batch.h"

#include <optional>
#include <string>

#include "base/error.h"
#include "base/strings.h"
#include "cmd/recipe/errors.h"

namespace ftune {
namespace {

constexpr int64_t kDefaultGlobal = 16;
constexpr int64_t kLargest = 1000000000;

int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// The product of three positive factors; nothing where it is above kLargest itself.
std::optional<int64_t> Product(int64_t a, int64_t b, int64_t c) {
  if (a > kLargest / b || a * b > kLargest / c) return std::nullopt;
  return a * b * c;
}

ErrorDetail TooLarge(const LoadedRecipe& loaded, int64_t micro, int64_t accumulation, int64_t ranks) {
  ErrorDetail error =
      loaded.At(loaded.places.contains("train.micro_batch_size") ? "train.micro_batch_size"
                                                                 : "train.gradient_accumulation_steps");
  error.message = StrCat("micro_batch_size ", micro, " × gradient_accumulation_steps ", accumulation,
                         " × parallel.data ", ranks, " is too large a batch");
  error.expected = StrCat("at most ", kLargest);
  return error;
}

// `global` was given, and `micro` × `accumulation` × `ranks` is not equal to it.
ErrorDetail DoesNotMultiplyOut(const LoadedRecipe& loaded, std::optional<int64_t> micro,
                               std::optional<int64_t> accumulation, int64_t ranks) {
  std::string factors;
  int64_t product = ranks;
  if (micro) {
    StrAppend(factors, "micro_batch_size ", *micro, " × ");
    product *= *micro;
  }
  if (accumulation) {
    StrAppend(factors, "gradient_accumulation_steps ", *accumulation, " × ");
    product *= *accumulation;
  }
  StrAppend(factors, "parallel.data ", ranks, " = ", product);
  const bool all_given = micro && accumulation;
  ErrorDetail error = loaded.At("train.global_batch_size");
  error.found = StrCat(*loaded.recipe.train.global_batch_size);
  error.expected = StrCat(all_given ? "" : "a multiple of ", factors);
  error.hint = all_given ? "change one of them, or leave one out to have it derived" : "change one of them";
  return error;
}

}  // namespace

absl::Status ResolveBatch(LoadedRecipe& loaded, int64_t data_ranks) {
  TrainSection& train = loaded.recipe.train;
  const Auto<int64_t> given_global = train.global_batch_size;
  const Auto<int64_t> given_micro = train.micro_batch_size;
  const Auto<int64_t> given_accumulation = train.gradient_accumulation_steps;
  const int64_t target = given_global.value_or(kDefaultGlobal);

  int64_t micro = given_micro.value_or(1);
  int64_t accumulation = given_accumulation.value_or(1);
  if (!given_accumulation) {
    accumulation = DivideUp(target, micro * data_ranks);
  } else if (!given_micro) {
    micro = DivideUp(target, accumulation * data_ranks);
  }
  const std::optional<int64_t> product = Product(micro, accumulation, data_ranks);
  if (!product) return RecipeStatus({TooLarge(loaded, micro, accumulation, data_ranks)});
  if (given_global && *product != *given_global) {
    return RecipeStatus({DoesNotMultiplyOut(loaded, given_micro, given_accumulation, data_ranks)});
  }
  train.global_batch_size = *product;
  train.micro_batch_size = micro;
  train.gradient_accumulation_steps = accumulation;
  return absl::OkStatus();
}

}  // namespace ftune
