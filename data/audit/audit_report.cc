#include "data/audit/audit_report.h"

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/error.h"
#include "base/strings.h"

namespace ftune {
namespace {

double Share(int64_t part, int64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
}

std::string Percent(double share) { return absl::StrFormat("%.4g %%", 100.0 * share); }

std::string ShareOf(int64_t part, int64_t whole, std::string_view what) {
  return StrCat(part, " of ", whole, " ", what, " (", Percent(Share(part, whole)), ")");
}

}  // namespace

std::string DescribeLost(const AuditCounts& counts) {
  std::vector<std::string> reasons;
  for (const auto& [reason, count] : counts.lost) reasons.push_back(StrCat(count, " ", reason));
  return StrJoin(reasons, ", ");
}

std::string AdviceOnLost(const AuditCounts& counts) {
  std::vector<std::string> advice;
  const auto advise = [&](std::initializer_list<const char*> reasons, const char* text) {
    if (std::any_of(reasons.begin(), reasons.end(), [&](const char* r) { return counts.lost.contains(r); }))
      advice.emplace_back(text);
  };
  advise({"bad_row"}, "mend the rows that cannot be read (data.on_bad_row: error stops at the first)");
  advise({"too_long", "answer_truncated"},
         "raise data.sequence_len or choose another data.excess_length_strategy");
  advise({"nothing_trained"},
         "see data.train_on_inputs, data.roles_to_train and the rows' weight and train for what is learned");
  return StrJoin(advice, "; ");
}

AuditReport::AuditReport(AuditCounts counts, std::vector<int32_t> stop_ids, const Tokenizer& tokenizer)
    : counts_(std::move(counts)), stop_ids_(std::move(stop_ids)), tokenizer_(tokenizer) {
  std::sort(stop_ids_.begin(), stop_ids_.end());
  stop_ids_.erase(std::unique(stop_ids_.begin(), stop_ids_.end()), stop_ids_.end());
}

bool AuditReport::Stops(int32_t id) const {
  return std::binary_search(stop_ids_.begin(), stop_ids_.end(), id);
}

int64_t AuditReport::lost_rows() const {
  int64_t count = 0;
  for (const auto& [reason, rows] : counts_.lost) count += rows;
  return count;
}

int64_t AuditReport::turns() const {
  int64_t count = counts_.cut_turns;
  for (const auto& [id, ending] : counts_.endings) count += ending.turns;
  return count;
}

int64_t AuditReport::open_turns() const {
  int64_t count = counts_.cut_turns;
  for (const auto& [id, ending] : counts_.endings) count += Stops(id) ? 0 : ending.turns;
  return count;
}

std::string AuditReport::DescribeEndings(bool stopping) const {
  constexpr size_t kMaxEndings = 3;
  std::vector<std::pair<int64_t, int32_t>> endings;
  for (const auto& [id, ending] : counts_.endings) {
    if (Stops(id) == stopping) endings.emplace_back(-ending.turns, id);
  }
  std::sort(endings.begin(), endings.end());
  std::vector<std::string> texts;
  if (!stopping && counts_.cut_turns > 0) texts.push_back(StrCat("a cut (", counts_.cut_turns, ")"));
  for (const auto& [turns, id] : endings) {
    texts.push_back(texts.size() < kMaxEndings ? StrCat(tokenizer_.IdToToken(id), " (", -turns, ")") : "…");
    if (texts.size() > kMaxEndings) break;
  }
  return StrJoin(texts, ", ");
}

std::string AuditReport::DescribeStops() const {
  std::vector<std::string> texts;
  for (const int32_t id : stop_ids_) texts.push_back(tokenizer_.IdToToken(id));
  return texts.empty() ? "no token" : StrJoin(texts, ", ");
}

std::string AuditReport::FirstOpen() const {
  const AuditCounts::Ending* most = nullptr;
  for (const auto& [id, ending] : counts_.endings) {
    if (!Stops(id) && (most == nullptr || ending.turns > most->turns)) most = &ending;
  }
  return most == nullptr || counts_.cut_turns > most->turns ? counts_.first_cut : most->first;
}

std::vector<std::string> AuditReport::Lines() const {
  std::vector<std::string> lines;
  if (lost_rows() > 0) {
    lines.push_back(StrCat("warning: of ", ShareOf(lost_rows(), counts_.rows, "rows"), " nothing is left: ",
                           DescribeLost(counts_), "; the first is ", counts_.first_lost));
  }
  std::vector<std::string> formats;
  for (const auto& [name, count] : counts_.formats) formats.push_back(StrCat(count, " from ", name, " rows"));
  lines.push_back(StrCat("audit: ", counts_.samples,
                         counts_.samples == 1 ? " sample: " : " samples: ", StrJoin(formats, ", ")));
  std::string trained =
      StrCat("audit: ", ShareOf(counts_.trained_tokens, counts_.tokens, "tokens"), " are trained");
  const char* separator = "; by role: ";
  for (const auto& [name, role] : counts_.roles) {
    StrAppend(trained, separator, name.empty() ? "between the turns" : name, " ",
              ShareOf(role.trained_tokens, role.tokens, "tokens"));
    separator = ", ";
  }
  lines.push_back(std::move(trained));
  if (counts_.untrained_samples > 0) {
    lines.push_back(StrCat("audit: ", ShareOf(counts_.untrained_samples, counts_.samples, "samples"),
                           " have nothing to learn; the first is ", counts_.first_untrained));
  }
  std::string bos = StrCat("audit: samples begin with no BOS: ", counts_.bos_samples[0],
                           ", one: ", counts_.bos_samples[1], ", more: ", counts_.bos_samples[2]);
  if (counts_.mended_bos > 0) StrAppend(bos, "; of ", counts_.mended_bos, " a second one was taken out");
  lines.push_back(std::move(bos));
  if (turns() > open_turns()) {
    lines.push_back(StrCat("audit: ", ShareOf(turns() - open_turns(), turns(), "trained turns"),
                           " end as generation does, with ", DescribeEndings(true)));
  }
  if (open_turns() > 0) {
    lines.push_back(StrCat("warning: ", ShareOf(open_turns(), turns(), "trained turns"), " end with ",
                           DescribeEndings(false), ", but generation stops on ", DescribeStops(),
                           "; the first is ", FirstOpen()));
  }
  return lines;
}

nlohmann::ordered_json AuditReport::ToJson() const {
  nlohmann::ordered_json json = counts_.ToJson();
  json["lost_rows"] = lost_rows();
  json["trained_turns"] = turns();
  json["open_turns"] = open_turns();
  json["stop_ids"] = stop_ids_;
  return json;
}

absl::Status AuditReport::Check(const AuditLimits& limits) const {
  const auto stop = [](const std::string& place, const char* key, std::string message, std::string found,
                       std::string expected, std::string hint) {
    return DataError({.file = place,
                      .key = StrCat("data.audit.", key),
                      .message = std::move(message),
                      .found = std::move(found),
                      .expected = std::move(expected),
                      .hint = std::move(hint)});
  };
  const auto at_most = [](double limit) { return StrCat("at most ", Percent(limit)); };
  if (Share(lost_rows(), counts_.rows) > limits.max_dropped_rows) {
    return stop(counts_.first_lost, "max_dropped_rows", "of too many rows nothing is left to train on",
                StrCat(ShareOf(lost_rows(), counts_.rows, "rows"), ", ", DescribeLost(counts_)),
                at_most(limits.max_dropped_rows), StrCat(AdviceOnLost(counts_), ", or raise the limit"));
  }
  if (Share(counts_.untrained_samples, counts_.samples) > limits.max_untrained_samples) {
    return stop(
        counts_.first_untrained, "max_untrained_samples", "too many samples have nothing to learn",
        ShareOf(counts_.untrained_samples, counts_.samples, "samples"), at_most(limits.max_untrained_samples),
        "look at one with ftune inspect; data.roles_to_train, train_on_inputs and the rows' weight and "
        "train decide what is learned");
  }
  if (Share(counts_.bos_samples[2], counts_.samples) > limits.max_doubled_bos) {
    return stop(counts_.first_doubled_bos, "max_doubled_bos", "samples begin with more than one BOS",
                ShareOf(counts_.bos_samples[2], counts_.samples, "samples"), at_most(limits.max_doubled_bos),
                "take it out of the data's input_ids");
  }
  if (Share(open_turns(), turns()) > limits.max_open_turns) {
    return stop(
        FirstOpen(), "max_open_turns",
        "the model would not learn to stop: trained turns do not end with a token that ends generation",
        StrCat(ShareOf(open_turns(), turns(), "turns"), ", ending with ", DescribeEndings(false)),
        StrCat("an end with ", DescribeStops()),
        2 * counts_.cut_turns > open_turns()
            ? "raise data.sequence_len or choose another data.excess_length_strategy, or raise the limit"
            : "give the model's generation_config.json the token that the chat template ends turns with as "
              "eos_token_id, choose another data.chat_template, or raise the limit");
  }
  const double trained = Share(counts_.trained_tokens, counts_.tokens);
  if (trained < limits.min_trained_tokens) {
    return stop("", "min_trained_tokens", "hardly anything is learned",
                ShareOf(counts_.trained_tokens, counts_.tokens, "tokens"),
                StrCat("at least ", Percent(limits.min_trained_tokens)),
                "look at a sample with ftune inspect");
  }
  return absl::OkStatus();
}

}  // namespace ftune
