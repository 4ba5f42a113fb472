#include "parallel/schedule/picture.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "base/markup.h"
#include "base/nice_step.h"
#include "base/strings.h"

namespace ftune {
namespace {

// The shortest compute action that takes time; the makespan if none does.
double ShortestAction(const Simulation& simulation) {
  double shortest = simulation.makespan > 0 ? simulation.makespan : 1;
  for (const RankSimulation& rank : simulation.ranks) {
    for (const TimedAction& timed : rank.actions) {
      const double length = timed.end - timed.begin;
      if (IsCompute(timed.action.kind) && length > 0) shortest = std::min(shortest, length);
    }
  }
  return shortest;
}

struct Colour {
  int red = 0;
  int green = 0;
  int blue = 0;
};

struct KindStyle {
  std::string_view letters;
  std::string_view meaning;
  Colour colour;
};

// In the order of ActionKind's compute actions.
constexpr std::array<KindStyle, 4> kStyles = {{{"F", "forward", {91, 155, 213}},
                                               {"BW", "backward", {88, 176, 156}},
                                               {"B", "input gradients", {112, 178, 96}},
                                               {"W", "weight gradients", {237, 155, 64}}}};

const KindStyle& StyleOf(ActionKind kind) { return kStyles[static_cast<size_t>(kind)]; }

// Later chunks are lighter.
std::string ShadeOf(ActionKind kind, int chunk, int chunks) {
  const double white = 0.65 * chunk / std::max(1, chunks);
  const auto mix = [&](int part) { return static_cast<int>(std::lround(part + (255 - part) * white)); };
  const Colour& colour = StyleOf(kind).colour;
  char text[16];
  std::snprintf(text, sizeof(text), "#%02x%02x%02x", mix(colour.red), mix(colour.green), mix(colour.blue));
  return text;
}

std::string Pixels(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.2f", value);
  return text;
}

std::string ShortNumber(double value) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.6g", value);
  return text;
}

class SvgWriter {
 public:
  SvgWriter(const Schedule& schedule, const Simulation& simulation, const std::string& unit, SvgPlace place)
      : shape_(schedule.shape),
        simulation_(simulation),
        unit_(unit.empty() ? "" : " " + EscapeMarkup(unit)),
        place_(place) {
    constexpr double kShortest = 18;  // two digits fit
    constexpr double kNarrowest = 640;
    constexpr double kWidest = 8000;
    const double makespan = simulation.makespan > 0 ? simulation.makespan : 1;
    width_ = std::clamp(kShortest * makespan / ShortestAction(simulation), kNarrowest, kWidest);
    scale_ = width_ / makespan;
  }

  std::string Write() {
    Begin(kLeft + width_ + kRight, kTop + kRow * shape_.ranks + kBottom);
    char ratio[32];
    std::snprintf(ratio, sizeof(ratio), "%.1f %%", 100 * simulation_.bubble_ratio);
    Text(kLeft, 16, "start",
         StrCat(shape_.ranks, " ranks, ", shape_.stages(), " stages, ", shape_.microbatches,
                " microbatches: ", ShortNumber(simulation_.makespan), unit_, ", idle ", ratio));
    Legend();
    for (int rank = 0; rank < shape_.ranks; ++rank) Row(rank);
    Axis();
    svg_ += "</svg>\n";
    return std::move(svg_);
  }

 private:
  static constexpr double kLeft = 64;
  static constexpr double kRight = 24;
  static constexpr double kTop = 52;
  static constexpr double kBottom = 32;
  static constexpr double kRow = 28;
  static constexpr double kBar = 24;

  void Begin(double width, double height) {
    const bool in_page = place_ == SvgPlace::kPage;
    if (!in_page) svg_ += "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
    StrAppend(svg_, "<svg ", in_page ? "" : "xmlns=\"http://www.w3.org/2000/svg\" ", "width=\"",
              Pixels(width), "\" height=\"", Pixels(height), "\" font-family=\"sans-serif\" font-size=\"11\"",
              in_page ? " fill=\"currentColor\"" : "", ">\n");
    if (!in_page) svg_ += "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  }

  void Text(double x, double y, std::string_view anchor, std::string_view text,
            std::string_view attributes = "") {
    StrAppend(svg_, "<text x=\"", Pixels(x), "\" y=\"", Pixels(y), "\" text-anchor=\"", anchor, "\"",
              attributes, ">", text, "</text>\n");
  }

  void Legend() {
    std::array<bool, kStyles.size()> used = {};
    for (const RankSimulation& rank : simulation_.ranks) {
      for (const TimedAction& timed : rank.actions) {
        if (IsCompute(timed.action.kind)) used[static_cast<size_t>(timed.action.kind)] = true;
      }
    }
    double x = kLeft;
    for (size_t i = 0; i < kStyles.size(); ++i) {
      if (!used[i]) continue;
      for (int chunk = 0; chunk < shape_.chunks; ++chunk) {
        StrAppend(svg_, "<rect x=\"", Pixels(x), "\" y=\"26\" width=\"12\" height=\"12\" fill=\"",
                  ShadeOf(static_cast<ActionKind>(i), chunk, shape_.chunks), "\"/>\n");
        x += 14;
      }
      const std::string text = StrCat(kStyles[i].letters, " ", kStyles[i].meaning);
      Text(x + 2, 36, "start", text);
      x += 20 + 6.2 * static_cast<double>(text.size());
    }
    if (shape_.chunks > 1) Text(x, 36, "start", "later chunks lighter");
  }

  void Row(int rank) {
    const double y = kTop + kRow * rank;
    Text(kLeft - 8, y + kBar / 2 + 4, "end", StrCat("rank ", rank));
    StrAppend(svg_, "<rect x=\"", Pixels(kLeft), "\" y=\"", Pixels(y), "\" width=\"", Pixels(width_),
              "\" height=\"", Pixels(kBar), "\" fill=\"#808080\" fill-opacity=\"0.12\"/>\n");
    for (const TimedAction& timed : simulation_.ranks[rank].actions) {
      if (IsCompute(timed.action.kind)) Bar(timed, y);
    }
  }

  void Bar(const TimedAction& timed, double y) {
    const Action& action = timed.action;
    const double x = kLeft + timed.begin * scale_;
    const double width = (timed.end - timed.begin) * scale_;
    StrAppend(svg_, "<rect x=\"", Pixels(x), "\" y=\"", Pixels(y), "\" width=\"", Pixels(width),
              "\" height=\"", Pixels(kBar), "\" fill=\"",
              ShadeOf(action.kind, shape_.ChunkOf(action.stage), shape_.chunks),
              "\" stroke=\"#ffffff\" stroke-width=\"0.5\"><title>", ToString(action), " ",
              ShortNumber(timed.begin), " to ", ShortNumber(timed.end), unit_, "</title></rect>\n");
    const std::string number = StrCat(action.microbatch);
    if (width >= 4 + 6.5 * static_cast<double>(number.size())) {
      Text(x + width / 2, y + kBar / 2 + 4, "middle", number, " fill=\"#000000\"");
    }
  }

  void Axis() {
    const double y = kTop + kRow * shape_.ranks;
    const double step = NiceStep(60 / scale_);
    for (int i = 0; i * step <= simulation_.makespan; ++i) {
      const double x = kLeft + i * step * scale_;
      StrAppend(svg_, "<line x1=\"", Pixels(x), "\" y1=\"", Pixels(y), "\" x2=\"", Pixels(x), "\" y2=\"",
                Pixels(y + 5), "\" stroke=\"#808080\"/>\n");
      Text(x, y + 18, "middle", StrCat(ShortNumber(i * step), i == 0 ? "" : unit_));
    }
    StrAppend(svg_, "<line x1=\"", Pixels(kLeft), "\" y1=\"", Pixels(y), "\" x2=\"", Pixels(kLeft + width_),
              "\" y2=\"", Pixels(y), "\" stroke=\"#808080\"/>\n");
  }

  const ScheduleShape shape_;
  const Simulation& simulation_;
  const std::string unit_;
  const SvgPlace place_;
  double width_ = 0;  // of the makespan
  double scale_ = 0;  // pixels a time unit
  std::string svg_;
};

std::string Label(const ScheduleShape& shape, const Action& action) {
  std::string label = StrCat(StyleOf(action.kind).letters, action.microbatch);
  if (shape.chunks > 1) label.push_back(static_cast<char>('a' + shape.ChunkOf(action.stage) % 26));
  return label;
}

}  // namespace

std::string ScheduleSvg(const Schedule& schedule, const Simulation& simulation, const std::string& unit,
                        SvgPlace place) {
  return SvgWriter(schedule, simulation, unit, place).Write();
}

std::string ScheduleText(const Schedule& schedule, const Simulation& simulation, int columns) {
  size_t longest = 1;
  for (const RankSimulation& rank : simulation.ranks) {
    for (const TimedAction& timed : rank.actions) {
      if (IsCompute(timed.action.kind))
        longest = std::max(longest, Label(schedule.shape, timed.action).size());
    }
  }
  const size_t name = StrCat("rank ", schedule.shape.ranks - 1, " ").size();
  double scale = static_cast<double>(longest) / ShortestAction(simulation);  // columns a time unit
  const double room = columns > 0 ? std::max(1.0, static_cast<double>(columns) - static_cast<double>(name))
                                  : std::numeric_limits<double>::infinity();
  if (simulation.makespan > 0) scale = std::min(scale, room / simulation.makespan);
  std::string text;
  for (size_t rank = 0; rank < simulation.ranks.size(); ++rank) {
    std::string row = StrCat("rank ", rank, " ");
    row.resize(name, ' ');
    for (const TimedAction& timed : simulation.ranks[rank].actions) {
      if (!IsCompute(timed.action.kind)) continue;
      const size_t begin = name + static_cast<size_t>(std::lround(timed.begin * scale));
      const size_t end = name + static_cast<size_t>(std::lround(timed.end * scale));
      if (end <= begin) continue;
      row.resize(begin, ' ');
      const std::string label = Label(schedule.shape, timed.action);
      row += label.size() <= end - begin ? label : label.substr(0, 1);
      row.resize(end, '-');
    }
    StrAppend(text, row, "\n");
  }
  return text;
}

}  // namespace ftune
