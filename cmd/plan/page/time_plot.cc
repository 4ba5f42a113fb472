#include "cmd/plan/page/time_plot.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/markup.h"
#include "base/nice_step.h"
#include "base/strings.h"

namespace ftune {
namespace {

std::string Px(double value) { return absl::StrFormat("%.1f", value); }

std::string ClassOf(std::string_view css) { return css.empty() ? "" : StrCat(" class=\"", css, "\""); }

std::string HintElement(const std::string& hint) {
  return hint.empty() ? "" : StrCat("<title>", EscapeMarkup(hint), "</title>");
}

}  // namespace

TimePlot::TimePlot(std::string_view title, double height, const PlotTime& time) : time_(time) {
  if (time_.seconds <= 0) time_.seconds = 1;
  svg_ = StrCat("<svg viewBox=\"0 0 ", Px(kPlotWidth), " ", Px(height), "\" role=\"img\" aria-label=\"",
                EscapeMarkup(title), "\">\n");
}

double TimePlot::X(double seconds) const {
  return kPlotLeft + std::clamp(seconds / time_.seconds, 0.0, 1.0) * (kPlotRight - kPlotLeft);
}

std::string TimePlot::Words(double seconds) const {
  if (!time_.timed) return StrCat(std::llround(seconds * 1e6));
  if (seconds >= 1) return absl::StrFormat("%.4g s", seconds);
  if (seconds >= 1e-3) return absl::StrFormat("%.4g ms", seconds * 1e3);
  return seconds > 0 ? absl::StrFormat("%.4g µs", seconds * 1e6) : "0";
}

void TimePlot::Line(double x1, double y1, double x2, double y2, std::string_view css) {
  StrAppend(svg_, "<line class=\"", css, "\" x1=\"", Px(x1), "\" y1=\"", Px(y1), "\" x2=\"", Px(x2),
            "\" y2=\"", Px(y2), "\"/>\n");
}

void TimePlot::Text(double x, double y, std::string_view anchor, std::string_view text,
                    std::string_view css) {
  StrAppend(svg_, "<text", ClassOf(css), " x=\"", Px(x), "\" y=\"", Px(y), "\" text-anchor=\"", anchor, "\">",
            EscapeMarkup(text), "</text>\n");
}

void TimePlot::Box(double x, double y, double width, double height, std::string_view css,
                   const std::string& hint) {
  StrAppend(svg_, "<rect class=\"", css, "\" x=\"", Px(x), "\" y=\"", Px(y), "\" width=\"", Px(width),
            "\" height=\"", Px(height), "\">", HintElement(hint), "</rect>\n");
}

void TimePlot::Path(std::string_view d, std::string_view css, const std::string& hint) {
  StrAppend(svg_, "<path class=\"", css, "\" d=\"", d, "\">", HintElement(hint), "</path>\n");
}

void TimePlot::Circle(double x, double y, double radius, std::string_view css) {
  StrAppend(svg_, "<circle class=\"", css, "\" cx=\"", Px(x), "\" cy=\"", Px(y), "\" r=\"", Px(radius),
            "\"/>\n");
}

void TimePlot::Axis(double y, double top) {
  constexpr double kMarks = 8;  // about so many
  const double step = NiceStep(time_.seconds / kMarks);
  for (int i = 0; i * step <= time_.seconds; ++i) {
    const double x = X(i * step);
    Line(x, top, x, y, "grid");
    Text(x, y + 16, "middle", Words(i * step));
  }
  Line(kPlotLeft, y, kPlotRight, y, "axis");
}

std::string TimePlot::Finish() && {
  svg_ += "</svg>\n";
  return std::move(svg_);
}

}  // namespace ftune
