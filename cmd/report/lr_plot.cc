#include "cmd/report/lr_plot.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/strings.h"

namespace ftune {
namespace {

constexpr double kWidth = 720, kHeight = 440, kLeft = 64, kRight = 16, kTop = 32, kBottom = 48;

// Places in the picture.
struct Axes {
  double low_rate, high_rate, low_loss, high_loss;

  double X(double rate) const {
    const double share =
        (std::log10(rate) - std::log10(low_rate)) / (std::log10(high_rate) - std::log10(low_rate));
    return kLeft + share * (kWidth - kLeft - kRight);
  }
  double Y(double loss) const {
    const double share = (std::clamp(loss, low_loss, high_loss) - low_loss) / (high_loss - low_loss);
    return kHeight - kBottom - share * (kHeight - kTop - kBottom);
  }
};

Axes MakeAxes(const std::vector<LrPoint>& points) {
  Axes axes = {points.front().rate, points.back().rate, points.front().smoothed, points.front().smoothed};
  for (const LrPoint& p : points) {
    if (!std::isfinite(p.loss)) continue;
    axes.low_loss = std::min(axes.low_loss, p.smoothed);
    axes.high_loss = std::max(axes.high_loss, p.smoothed);
  }
  const double margin = 0.05 * std::max(axes.high_loss - axes.low_loss, 1e-3);
  axes.low_loss -= margin;
  axes.high_loss += margin;
  return axes;
}

std::string Line(double x1, double y1, double x2, double y2, std::string_view style) {
  return absl::StrFormat("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" %s/>\n", x1, y1, x2, y2,
                         std::string(style));
}

std::string Text(double x, double y, std::string_view anchor, const std::string& text) {
  return absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">%s</text>\n", x, y,
                         std::string(anchor), text);
}

std::string Polyline(const Axes& axes, const std::vector<LrPoint>& points, double LrPoint::*loss,
                     std::string_view style) {
  std::string svg = "<polyline fill=\"none\" ";
  StrAppend(svg, style, " points=\"");
  for (const LrPoint& p : points) {
    if (std::isfinite(p.*loss)) svg += absl::StrFormat("%.1f,%.1f ", axes.X(p.rate), axes.Y(p.*loss));
  }
  return svg + "\"/>\n";
}

std::string Grid(const Axes& axes) {
  constexpr std::string_view kGrid = "stroke=\"#ddd\"";
  constexpr int kLines = 5;
  std::string svg;
  for (double power = std::ceil(std::log10(axes.low_rate) - 1e-9); power <= std::log10(axes.high_rate) + 1e-9;
       power += 1) {
    const double x = axes.X(std::pow(10.0, power));
    svg += Line(x, kTop, x, kHeight - kBottom, kGrid);
    svg += Text(x, kHeight - kBottom + 18, "middle", absl::StrFormat("1e%d", std::lround(power)));
  }
  for (int i = 0; i <= kLines; ++i) {
    const double loss = axes.low_loss + (axes.high_loss - axes.low_loss) * i / kLines;
    const double y = axes.Y(loss);
    svg += Line(kLeft, y, kWidth - kRight, y, kGrid);
    svg += Text(kLeft - 6, y + 4, "end", absl::StrFormat("%.3g", loss));
  }
  return svg;
}

}  // namespace

std::string LrPlotSvg(const LrRangeResult& result) {
  const Axes axes = MakeAxes(result.points);
  std::string svg = absl::StrFormat(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
      kWidth, kHeight);
  svg += Grid(axes);
  svg += Polyline(axes, result.points, &LrPoint::loss, "stroke=\"#9ecae1\"");
  svg += Polyline(axes, result.points, &LrPoint::smoothed, "stroke=\"#08519c\" stroke-width=\"2\"");
  if (result.suggestion) {
    const double x = axes.X(*result.suggestion);
    svg += Line(x, kTop, x, kHeight - kBottom, "stroke=\"#d94801\" stroke-dasharray=\"4 3\"");
    svg += Text(x, kTop - 8, "middle", absl::StrFormat("suggestion %.2g", *result.suggestion));
  }
  svg += Text((kLeft + kWidth - kRight) / 2, kHeight - 8, "middle", "learning rate");
  svg += Text(8, kTop - 8, "start", "loss (thick: smoothed)");
  return svg + "</svg>\n";
}

}  // namespace ftune
