// What the page's plots over the time of a step share: their width, the axis of time, and SVG's words.
#pragma once

#include <string>
#include <string_view>

namespace ftune {

// Pixels; plots are scaled to the page's width.
inline constexpr double kPlotWidth = 960.0;
inline constexpr double kPlotLeft = 96.0;
inline constexpr double kPlotRight = 944.0;

// What the whole width stands for.
struct PlotTime {
  double seconds = 0.0;
  bool timed = false;  // else a microsecond stands for an allocation
};

class TimePlot {
 public:
  // `title` is what those hear who do not see the plot.
  TimePlot(std::string_view title, double height, const PlotTime& time);

  double X(double seconds) const;
  // "12.5 ms", or "12500" allocations.
  std::string Words(double seconds) const;

  // `css` is a class of the page's style.
  void Line(double x1, double y1, double x2, double y2, std::string_view css);
  // `text` is escaped here. `anchor`: start, middle or end.
  void Text(double x, double y, std::string_view anchor, std::string_view text, std::string_view css = "");
  // `hint` shows when it is pointed at; none where it is empty.
  void Box(double x, double y, double width, double height, std::string_view css,
           const std::string& hint = "");
  void Path(std::string_view d, std::string_view css, const std::string& hint);
  void Circle(double x, double y, double radius, std::string_view css);
  // Marks of time below `y`, and lines from there up to `top`.
  void Axis(double y, double top);

  // The whole element.
  std::string Finish() &&;

 private:
  PlotTime time_;
  std::string svg_;
};

}  // namespace ftune
