#include "data/audit/audit_counts.h"

#include <charconv>
#include <string>

#include "base/error.h"
#include "base/json_file.h"

namespace ftune {
namespace {

// Every number and text of the counts under its name, once for writing and reading.
template <class Counts, class Visit>
void ForEachNumber(Counts& counts, const Visit& visit) {
  visit("rows", counts.rows);
  visit("samples", counts.samples);
  visit("tokens", counts.tokens);
  visit("trained_tokens", counts.trained_tokens);
  visit("untrained_samples", counts.untrained_samples);
  visit("samples_without_bos", counts.bos_samples[0]);
  visit("samples_with_one_bos", counts.bos_samples[1]);
  visit("samples_with_doubled_bos", counts.bos_samples[2]);
  visit("mended_bos", counts.mended_bos);
  visit("cut_turns", counts.cut_turns);
}

template <class Counts, class Visit>
void ForEachText(Counts& counts, const Visit& visit) {
  visit("first_lost", counts.first_lost);
  visit("first_lost_message", counts.first_lost_message);
  visit("first_cut", counts.first_cut);
  visit("first_untrained", counts.first_untrained);
  visit("first_doubled_bos", counts.first_doubled_bos);
}

template <class RoleCounts, class Visit>
void ForEachRoleNumber(RoleCounts& role, const Visit& visit) {
  visit("tokens", role.tokens);
  visit("trained_tokens", role.trained_tokens);
}

absl::StatusOr<nlohmann::json> Object(const nlohmann::json& json, const char* key, const std::string& file) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_object()) {
    return DataError({.file = file, .key = key, .expected = "an object"});
  }
  return *found;
}

}  // namespace

void AuditCounts::Merge(const AuditCounts& later) {
  rows += later.rows;
  if (lost.empty()) {
    first_lost = later.first_lost;
    first_lost_message = later.first_lost_message;
  }
  for (const auto& [reason, count] : later.lost) lost[reason] += count;
  samples += later.samples;
  tokens += later.tokens;
  trained_tokens += later.trained_tokens;
  untrained_samples += later.untrained_samples;
  for (size_t i = 0; i < bos_samples.size(); ++i) bos_samples[i] += later.bos_samples[i];
  for (const auto& [name, count] : later.formats) formats[name] += count;
  for (const auto& [name, role] : later.roles) {
    Role& sum = roles[name];
    sum.tokens += role.tokens;
    sum.trained_tokens += role.trained_tokens;
  }
  mended_bos += later.mended_bos;
  for (const auto& [id, ending] : later.endings) {
    Ending& sum = endings[id];
    sum.turns += ending.turns;
    if (sum.first.empty()) sum.first = ending.first;
  }
  cut_turns += later.cut_turns;
  if (first_cut.empty()) first_cut = later.first_cut;
  if (first_untrained.empty()) first_untrained = later.first_untrained;
  if (first_doubled_bos.empty()) first_doubled_bos = later.first_doubled_bos;
}

nlohmann::ordered_json AuditCounts::ToJson() const {
  nlohmann::ordered_json json;
  const auto write = [&](const char* key, const auto& value) { json[key] = value; };
  ForEachNumber(*this, write);
  ForEachText(*this, write);
  json["lost"] = nlohmann::ordered_json(lost);
  json["formats"] = nlohmann::ordered_json(formats);
  json["endings"] = nlohmann::ordered_json::object();
  for (const auto& [id, ending] : endings) {
    json["endings"][std::to_string(id)] = {{"turns", ending.turns}, {"first", ending.first}};
  }
  json["roles"] = nlohmann::ordered_json::object();
  for (const auto& [name, role] : roles) {
    nlohmann::ordered_json& out = json["roles"][name];
    ForEachRoleNumber(role, [&](const char* key, int64_t value) { out[key] = value; });
  }
  return json;
}

absl::StatusOr<AuditCounts> AuditCounts::FromJson(const nlohmann::json& json, const std::string& file) {
  AuditCounts counts;
  absl::Status status;
  const auto read_from = [&](const nlohmann::json& object) {
    return [&](const char* key, auto& value) {
      if (!status.ok()) return;
      auto read = RequiredField<std::remove_reference_t<decltype(value)>>(object, key, file);
      if (read.ok()) {
        value = *std::move(read);
      } else {
        status = read.status();
      }
    };
  };
  ForEachNumber(counts, read_from(json));
  ForEachText(counts, read_from(json));
  FTUNE_RETURN_IF_ERROR(status);
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json lost, Object(json, "lost", file));
  for (const auto& item : lost.items()) {
    FTUNE_ASSIGN_OR_RETURN(counts.lost[item.key()], RequiredField<int64_t>(lost, item.key(), file));
  }
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json formats, Object(json, "formats", file));
  for (const auto& item : formats.items()) {
    FTUNE_ASSIGN_OR_RETURN(counts.formats[item.key()], RequiredField<int64_t>(formats, item.key(), file));
  }
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json endings, Object(json, "endings", file));
  for (const auto& item : endings.items()) {
    int32_t id = 0;
    const std::string& text = item.key();
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), id);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) {
      return DataError({.file = file, .key = "endings", .found = text, .expected = "token ids"});
    }
    FTUNE_ASSIGN_OR_RETURN(counts.endings[id].turns, RequiredField<int64_t>(item.value(), "turns", file));
    FTUNE_ASSIGN_OR_RETURN(counts.endings[id].first, RequiredField<std::string>(item.value(), "first", file));
  }
  FTUNE_ASSIGN_OR_RETURN(const nlohmann::json roles, Object(json, "roles", file));
  for (const auto& item : roles.items()) {
    ForEachRoleNumber(counts.roles[item.key()], read_from(item.value()));
  }
  FTUNE_RETURN_IF_ERROR(status);
  return counts;
}

}  // namespace ftune
