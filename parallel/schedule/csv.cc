#include "parallel/schedule/csv.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/atomic_file.h"
#include "base/error.h"
#include "base/mapped_file.h"
#include "base/printable.h"
#include "base/strings.h"
#include "parallel/schedule/check.h"

namespace ftune {
namespace {

constexpr std::string_view kBlank = " \t\r";
constexpr std::string_view kUtf8Mark = "\xef\xbb\xbf";

// What other programs write that is no comma between two actions.
struct Separator {
  char letter;
  std::string_view name;
};
constexpr std::array<Separator, 3> kOtherSeparators = {
    {{';', "semicolons"}, {'\t', "tabs"}, {'\r', "line ends of CR alone"}}};

std::string_view Trim(std::string_view text) {
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// The field itself, which spaces and then quotes may enclose. What more there may be of quotes is no action.
std::string_view Unquote(std::string_view field) {
  field = Trim(field);
  if (field.size() < 2 || field.front() != '"' || field.back() != '"') return field;
  return Trim(field.substr(1, field.size() - 2));
}

std::string Count(int64_t number, std::string_view thing) {
  return StrCat(number, " ", thing, number == 1 ? "" : "s");
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> pieces;
  for (;;) {
    const size_t end = text.find(separator);
    pieces.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return pieces;
    text.remove_prefix(end + 1);
  }
}

class Reader {
 public:
  Reader(const std::string& file, const ScheduleExpectation& expected) : file_(file), expected_(expected) {}

  absl::StatusOr<Schedule> Read(std::string_view text) {
    FTUNE_RETURN_IF_ERROR(ReadActions(text));
    FTUNE_RETURN_IF_ERROR(FindShape());
    if (const auto fault = FindFault(schedule_)) {
      const bool whole_line = fault->position < 0;
      return DataError({.file = file_,
                        .line = fault->rank + 1,
                        .message = whole_line
                                       ? fault->message
                                       : StrCat(Field(fault->rank, fault->position), ": ", fault->message),
                        .hint = fault->hint});
    }
    return std::move(schedule_);
  }

 private:
  absl::Status ReadActions(std::string_view text) {
    if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) {
      return DataError({.file = file_,
                        .message = "this text is UTF-16",
                        .expected = "ASCII or UTF-8",
                        .hint = "save it as CSV in UTF-8"});
    }
    if (text.starts_with(kUtf8Mark)) text.remove_prefix(kUtf8Mark.size());
    std::vector<std::string_view> lines = Split(text, '\n');
    while (!lines.empty() && Trim(lines.back()).empty()) lines.pop_back();
    if (lines.empty()) {
      return DataError({.file = file_, .message = "an empty file", .expected = "a line a rank"});
    }
    for (size_t rank = 0; rank < lines.size(); ++rank) {
      schedule_.ranks.emplace_back();
      fields_.emplace_back();
      const std::vector<std::string_view> fields = Split(lines[rank], ',');
      for (size_t i = 0; i < fields.size(); ++i) {
        const std::string_view field = Unquote(fields[i]);
        if (field.empty()) continue;
        const absl::StatusOr<Action> action = ParseAction(field);
        if (!action.ok()) return NoAction(rank, i, field, action.status());
        schedule_.ranks.back().push_back(*action);
        fields_.back().push_back(i + 1);
      }
    }
    return absl::OkStatus();
  }

  absl::Status NoAction(size_t rank, size_t i, std::string_view field, const absl::Status& why) const {
    ErrorDetail detail = DetailOf(why).value_or(ErrorDetail{});
    detail.file = file_;
    detail.line = static_cast<int>(rank) + 1;
    detail.message = StrCat("field ", i + 1, ": ", detail.message);
    const auto other = std::find_if(
        kOtherSeparators.begin(), kOtherSeparators.end(),
        [&](const Separator& separator) { return field.find(separator.letter) != std::string_view::npos; });
    if (other != kOtherSeparators.end()) {
      detail.message = StrCat("field ", i + 1, ": its actions are separated by ", other->name);
      detail.expected = "a line a rank, and commas between its actions";
    } else if (field.find('"') != std::string_view::npos) {
      detail.message = StrCat("field ", i + 1, ": the quotes do not enclose one action");
      detail.found = StrCat("'", Printable(field, kMostShown), "'");
      detail.expected = "quotes around each action, or none";
    }
    return DataError(std::move(detail));
  }

  absl::Status FindShape() {
    ScheduleShape& shape = schedule_.shape;
    shape.ranks = static_cast<int>(schedule_.ranks.size());
    if (expected_.ranks && *expected_.ranks != shape.ranks) {
      return DataError({.file = file_,
                        .message = "the file has a line for each rank of the pipeline",
                        .found = Count(shape.ranks, "line"),
                        .expected = StrCat(*expected_.ranks)});
    }
    int64_t actions = 0;
    int64_t stages = 0;
    int64_t microbatches = 0;
    int rank_of_turn = 0;  // of the first stage of the second chunk
    for (int rank = 0; rank < shape.ranks; ++rank) {
      for (const Action& action : schedule_.ranks[rank]) {
        ++actions;
        stages = std::max<int64_t>(stages, int64_t{action.stage} + 1);
        microbatches = std::max<int64_t>(microbatches, int64_t{action.microbatch} + 1);
        if (action.stage == shape.ranks) rank_of_turn = rank;
      }
    }
    // Before tables of that size are made.
    if (stages > actions || microbatches > actions || stages * microbatches > actions) {
      return DataError({.file = file_,
                        .message = "actions are missing",
                        .found = StrCat(Count(actions, "action"), ", of stages up to ", stages - 1,
                                        " and microbatches up to ", microbatches - 1),
                        .expected = "a forward and a backward of each stage and microbatch"});
    }
    if (expected_.microbatches && *expected_.microbatches != microbatches) {
      return DataError({.file = file_,
                        .message = "the schedule is for another number of microbatches",
                        .found = StrCat(microbatches),
                        .expected = StrCat(*expected_.microbatches)});
    }
    if (stages == 0 || stages % shape.ranks != 0) {
      return DataError({.file = file_,
                        .message = "each rank must hold as many stages",
                        .found = StrCat(Count(stages, "stage"), " in ", Count(shape.ranks, "line"))});
    }
    shape.chunks = static_cast<int>(stages / shape.ranks);
    shape.microbatches = static_cast<int>(std::max<int64_t>(microbatches, 1));
    if (shape.chunks == 2 && rank_of_turn == shape.ranks - 1 && shape.ranks > 1) shape.order = StageOrder::kV;
    return absl::OkStatus();
  }

  std::string Field(int rank, int position) const {
    return StrCat("field ", fields_[rank][position], " (", ToString(schedule_.ranks[rank][position]), ")");
  }

  const std::string& file_;
  const ScheduleExpectation& expected_;
  Schedule schedule_;
  std::vector<std::vector<size_t>> fields_;  // of each action
};

}  // namespace

std::string FormatScheduleCsv(const Schedule& schedule) {
  std::string text;
  for (const std::vector<Action>& actions : schedule.ranks) {
    std::string_view separator;
    for (const Action& action : actions) {
      StrAppend(text, separator, ToString(action));
      separator = ",";
    }
    text.push_back('\n');
  }
  return text;
}

absl::Status WriteScheduleCsv(const std::filesystem::path& path, const Schedule& schedule) {
  return WriteFileAtomic(path, FormatScheduleCsv(schedule));
}

absl::StatusOr<Schedule> ParseScheduleCsv(std::string_view text, const std::string& file,
                                          const ScheduleExpectation& expected) {
  return Reader(file, expected).Read(text);
}

absl::StatusOr<Schedule> ReadScheduleCsv(const std::filesystem::path& path,
                                         const ScheduleExpectation& expected) {
  FTUNE_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return ParseScheduleCsv(file.text(), path.string(), expected);
}

}  // namespace ftune
