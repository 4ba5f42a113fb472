#include "cmd/export_checks.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/strings.h"
#include "engine/train/generate.h"

namespace ftune {
namespace {

// Some real text; its content does not matter.
constexpr const char* kProbes[] = {
    "The quick brown fox jumps over the lazy dog. 12345 + 67890 = 80235.\n",
    "It's 1999's  don't-care:\t\"x\"\n\n  if (a != b) { return 3.14; }",
    " Grüße aus Zürich – 東京は晴れ。 Привет, мир! 🙂👍🏽"};
// Of the text that models are compared on, so that their logits fit into memory.
constexpr size_t kMostTokens = 512;
// Of f32, in parts of the largest logit: sums in another order are far below.
constexpr double kMostApart = 1e-2;

absl::StatusOr<std::vector<float>> LogitsOf(ModelSession& session, const std::vector<int32_t>& ids) {
  std::vector<float> logits = AllLogits(*session.backend, Stream(), *session.loaded.model, ids);
  FTUNE_RETURN_IF_ERROR(session.loaded.model->hooks().status());
  return logits;
}

}  // namespace

absl::Status CheckTokenizer(const Tokenizer& own, const std::filesystem::path& written) {
  FTUNE_ASSIGN_OR_RETURN(const std::unique_ptr<Tokenizer> other, LoadTokenizer(written));
  for (const char* text : kProbes) {
    const std::vector<int32_t> want = own.Encode(text).ids, got = other->Encode(text).ids;
    if (want == got) continue;
    return DataError({.file = written.string(),
                      .key = "tokenizer",
                      .message = StrCat("the tokenizer that was written splits ", text, " in another way"),
                      .found = StrCat("ids ", StrJoin(got, " ")),
                      .expected = StrCat("ids ", StrJoin(want, " ")),
                      .hint = "the file is of no use and can be removed; export with --format hf"});
  }
  return absl::OkStatus();
}

absl::StatusOr<double> MaxLogitDifference(ModelSession& source, ModelSession& written,
                                          const std::vector<std::string>& prompts, DType dtype,
                                          const std::filesystem::path& path) {
  std::string text = kProbes[0];
  for (const std::string& prompt : prompts) StrAppend(text, prompt, "\n");
  std::vector<int32_t> ids = source.tokenizer->Encode(text).ids;
  const ModelConfig& config = source.loaded.files.config;
  std::erase_if(ids, [&](int32_t id) { return id >= config.vocab_size; });
  // The model has no more positions than its context.
  ids.resize(std::min({ids.size(), static_cast<size_t>(config.LongestText()), kMostTokens}));
  FTUNE_ASSIGN_OR_RETURN(const std::vector<float> want, LogitsOf(source, ids));
  FTUNE_ASSIGN_OR_RETURN(const std::vector<float> got, LogitsOf(written, ids));
  double worst = 0.0, largest = 0.0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double difference = std::abs(static_cast<double>(got[i]) - want[i]);
    if (!std::isfinite(difference)) {
      return UserError(
          ExitCode::kNotFinite,
          {.file = path.string(),
           .message = "the logits of what was written, or of its source, are not finite",
           .hint = "a weight is too large for --dtype fp16, or the source is broken: try --dtype bf16"});
    }
    worst = std::max(worst, difference);
    largest = std::max(largest, static_cast<double>(std::abs(want[i])));
  }
  if (dtype == DType::kF32 && worst > kMostApart * largest) {
    return DataError(
        {.file = path.string(),
         .message = "what was written computes something else than what was exported",
         .found = absl::StrFormat("logits that are up to %.3g apart", worst),
         .expected = absl::StrFormat("at most %.3g, of logits up to %.3g", kMostApart * largest, largest),
         .hint = "it is of no use and can be removed"});
  }
  return worst;
}

}  // namespace ftune
