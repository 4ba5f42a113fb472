#include "cmd/plan/page/lane_plot.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <string_view>
#include <utility>

#include "base/strings.h"

namespace ftune {
namespace {

constexpr double kLaneRow = 18, kLaneGap = 8, kLaneTop = 6, kLaneAxis = 26;
// Pixels.
constexpr double kSeen = 1.0;
constexpr double kBetween = 0.5;  // two that touch

// Beside a plot there is little room.
constexpr std::array<std::string_view, kTimeLanes.size()> kLaneLabels = {"compute", "wait", "communication",
                                                                         "step"};

using LaneRow = std::vector<TimeSpan>;  // in order of time, none in another

// Rows of the spans of one lane: each in the first where there is room.
std::vector<LaneRow> RowsOf(const std::vector<TimeSpan>& spans, int lane) {
  std::vector<TimeSpan> sorted;
  std::copy_if(spans.begin(), spans.end(), std::back_inserter(sorted),
               [&](const TimeSpan& span) { return span.lane == lane; });
  std::stable_sort(sorted.begin(), sorted.end(), [](const TimeSpan& a, const TimeSpan& b) {
    return std::pair(a.begin, -a.end) < std::pair(b.begin, -b.end);
  });
  std::vector<LaneRow> rows;
  for (TimeSpan& span : sorted) {
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const LaneRow& known) { return known.back().end <= span.begin; });
    if (row != rows.end()) {
      row->push_back(std::move(span));
    } else {
      rows.push_back({std::move(span)});
    }
  }
  return rows;
}

void DrawRow(const LaneRow& row, double y, const std::string& css, TimePlot& plot) {
  for (size_t i = 0; i < row.size();) {
    const double begin = plot.X(row[i].begin);
    const double end = plot.X(row[i].end);
    if (end - begin >= kSeen) {
      plot.Box(begin, y, end - begin - kBetween, kLaneRow - 2, css,
               StrCat(row[i].name, ": ", plot.Words(row[i].end - row[i].begin), " from ",
                      plot.Words(row[i].begin)));
      ++i;
      continue;
    }
    // Of those that cannot be seen alone, as many as touch one another.
    size_t next = i;
    double together = end;
    while (next < row.size() && plot.X(row[next].end) - plot.X(row[next].begin) < kSeen &&
           plot.X(row[next].begin) - together < kSeen) {
      together = plot.X(row[next++].end);
    }
    plot.Box(begin, y, std::max(kSeen, together - begin), kLaneRow - 2, css,
             next - i == 1 ? row[i].name : StrCat(next - i, " short ones"));
    i = next;
  }
}

}  // namespace

std::string LanePlot(const std::vector<TimeSpan>& spans, const std::string& name, const PlotTime& time) {
  std::array<std::vector<LaneRow>, kTimeLanes.size()> lanes;
  double height = kLaneTop + kLaneAxis;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    lanes[lane] = RowsOf(spans, static_cast<int>(lane));
    if (!lanes[lane].empty()) height += kLaneRow * static_cast<double>(lanes[lane].size()) + kLaneGap;
  }
  TimePlot plot(StrCat("What ", name, " does in a step"), height, time);
  plot.Axis(height - kLaneAxis, kLaneTop);
  double y = kLaneTop;
  for (size_t lane = 0; lane < lanes.size(); ++lane) {
    if (lanes[lane].empty()) continue;
    plot.Text(kPlotLeft - 6, y + 12, "end", kLaneLabels[lane]);
    for (const LaneRow& row : lanes[lane]) {
      DrawRow(row, y, StrCat("l", lane), plot);
      y += kLaneRow;
    }
    y += kLaneGap;
  }
  return std::move(plot).Finish();
}

}  // namespace ftune
