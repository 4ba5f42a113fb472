#include "cmd/plan/page/memory_plot.h"

#include <algorithm>
#include <bit>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "base/strings.h"
#include "cmd/plan/memory_samples.h"
#include "cmd/report/progress.h"

namespace ftune {
namespace {

constexpr double kMemoryHeight = 340, kMemoryTop = 52, kMemoryBottom = 308;
// More than there are pixels show nothing.
constexpr size_t kDrawnSamples = 1200;

const MemorySample& HighestOf(const std::vector<MemorySample>& samples) {
  return *std::max_element(samples.begin(), samples.end(), [](const MemorySample& a, const MemorySample& b) {
    return a.use.total() < b.use.total();
  });
}

class MemoryPlotWriter {
 public:
  MemoryPlotWriter(const RankRole& role, int64_t room, const PlotTime& time)
      : role_(role),
        samples_(Thinned(role.dry.trace.memory, kDrawnSamples)),
        highest_(HighestOf(samples_)),
        room_(room),
        seconds_(time.seconds),
        plot_(StrCat("Memory of ", role.name, " over a step"), kMemoryHeight, time) {
    constexpr double kRoom = 1.08;  // above the highest
    const double top = kRoom * static_cast<double>(highest_.use.total());
    constexpr double kNear = 3;  // so far above the highest the line of what there is is drawn
    shows_room_ = static_cast<double>(room) <= kNear * top;
    top_ = shows_room_ ? std::max(top, kRoom * static_cast<double>(room)) : top;
  }

  std::string Write() && {
    plot_.Axis(kMemoryBottom, kMemoryTop);
    BytesAxis();
    double legend = kPlotLeft;
    std::vector<int64_t> floor(samples_.size());
    for (int i = 0; i < kCategories; ++i) {
      const auto category = static_cast<Category>(i);
      const bool used = std::any_of(samples_.begin(), samples_.end(),
                                    [&](const MemorySample& sample) { return sample.use[category] > 0; });
      if (!used) continue;
      Area(category, floor);
      plot_.Box(legend, 8, 12, 12, StrCat("c", i));
      plot_.Text(legend + 16, 18, "start", Name(category));
      legend += 40 + 7.0 * static_cast<double>(Name(category).size());
    }
    Room();
    Peak();
    return std::move(plot_).Finish();
  }

 private:
  double Y(int64_t bytes) const {
    return kMemoryBottom - static_cast<double>(bytes) / top_ * (kMemoryBottom - kMemoryTop);
  }

  static std::string Digits(double pixels) { return absl::StrFormat("%.1f", pixels); }
  std::string Point(double x, int64_t bytes) const { return StrCat(Digits(x), ",", Digits(Y(bytes))); }
  // Of the time for which a sample holds.
  double Begin(size_t i) const { return plot_.X(samples_[i].seconds); }
  double End(size_t i) const { return plot_.X(i + 1 < samples_.size() ? samples_[i + 1].seconds : seconds_); }

  void BytesAxis() {
    constexpr int64_t kMarks = 4;  // as many or more
    const int64_t step = static_cast<int64_t>(
        std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(1, static_cast<int64_t>(top_) / kMarks))));
    for (int64_t bytes = 0; static_cast<double>(bytes) <= top_; bytes += step) {
      plot_.Line(kPlotLeft, Y(bytes), kPlotRight, Y(bytes), "grid");
      plot_.Text(kPlotLeft - 6, Y(bytes) + 4, "end", bytes == 0 ? "0" : HumanBytes(bytes));
    }
  }

  // Stands on `floor`, which it raises. Memory goes from one sample on to the next.
  void Area(Category category, std::vector<int64_t>& floor) {
    std::string outline;
    for (size_t i = 0; i < samples_.size(); ++i) {
      StrAppend(outline, i == 0 ? "M" : "L", Point(Begin(i), floor[i] + samples_[i].use[category]), "H",
                Digits(End(i)));
    }
    for (size_t i = samples_.size(); i-- > 0;) {
      StrAppend(outline, "L", Point(End(i), floor[i]), "H", Digits(Begin(i)));
      floor[i] += samples_[i].use[category];
    }
    outline += "Z";
    plot_.Path(outline, StrCat("c", static_cast<int>(category)),
               StrCat(Name(category), ": ", HumanBytes(highest_.use[category]), " at the peak"));
  }

  void Room() {
    const std::string words = StrCat("room for ", HumanBytes(room_));
    if (!shows_room_) {
      plot_.Text(kPlotRight, 18, "end", StrCat(words, ", above this plot"), "room");
      return;
    }
    plot_.Line(kPlotLeft, Y(room_), kPlotRight, Y(room_), "room");
    plot_.Text(kPlotRight, Y(room_) - 5, "end", words, "room");
  }

  void Peak() {
    const double x = plot_.X(highest_.seconds);
    const double y = Y(highest_.use.total());
    const bool of_all = highest_.use.total() == role_.dry.peak.total();
    const bool right = x > (kPlotLeft + kPlotRight) / 2;
    plot_.Line(x, 34, x, kMemoryBottom, "peak");
    plot_.Circle(x, y, 4, "peak");
    plot_.Text(right ? x - 6 : x + 6, 42, right ? "end" : "start",
               of_all ? StrCat("peak ", HumanBytes(highest_.use.total()), ", in ", role_.dry.moment)
                      : StrCat("highest of the step, ", HumanBytes(highest_.use.total())),
               "peak");
  }

  const RankRole& role_;
  const std::vector<MemorySample> samples_;
  const MemorySample& highest_;
  const int64_t room_;
  const double seconds_;
  TimePlot plot_;
  bool shows_room_ = false;
  double top_ = 1.0;  // bytes
};

}  // namespace

std::string MemoryPlot(const RankRole& role, int64_t room, const PlotTime& time) {
  return MemoryPlotWriter(role, room, time).Write();
}

}  // namespace ftune
