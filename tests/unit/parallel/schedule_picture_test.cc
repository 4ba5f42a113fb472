#include <cstring>
#include <map>

#include "parallel/schedule/insert_transfers.h"
#include "parallel/schedule/picture.h"
#include "tests/unit/parallel/schedule_cases.h"

namespace ftune {
namespace {

struct Element {
  std::string name;
  std::string attributes;
};

// A reader of XML that knows enough to refuse what is not well formed: tags nest, attributes are quoted,
// entities are known, one root. Gives the elements in order.
std::vector<Element> ParseXml(const std::string& xml) {
  std::vector<Element> elements;
  std::vector<std::string> open;
  size_t at = 0;
  REQUIRE(xml.rfind("<?xml ", 0) == 0);
  at = xml.find("?>") + 2;
  int roots = 0;
  while (at < xml.size()) {
    if (xml[at] != '<') {
      const size_t end = std::min(xml.find('<', at), xml.size());
      for (size_t i = at; i < end; ++i) {
        const unsigned char c = xml[i];
        if (c < 0x20) REQUIRE(c == '\n');
        if (c == '&') {
          const std::string entity = xml.substr(i, xml.find(';', i) - i + 1);
          const bool known = entity == "&amp;" || entity == "&lt;" || entity == "&gt;";
          REQUIRE_MESSAGE(known, entity);
        }
        if (open.empty()) REQUIRE(c == '\n');
      }
      at = end;
      continue;
    }
    const size_t end = xml.find('>', at);
    REQUIRE(end != std::string::npos);
    std::string tag = xml.substr(at + 1, end - at - 1);
    at = end + 1;
    if (tag[0] == '/') {
      REQUIRE_FALSE(open.empty());
      REQUIRE(open.back() == tag.substr(1));
      open.pop_back();
      continue;
    }
    const bool closed = tag.back() == '/';
    if (closed) tag.pop_back();
    const std::string name = tag.substr(0, tag.find(' '));
    if (open.empty()) ++roots;
    std::string rest = tag.substr(name.size());
    elements.push_back({name, rest});
    while (!rest.empty()) {
      const size_t equals = rest.find("=\"");
      const size_t quote = equals == std::string::npos ? equals : rest.find('"', equals + 2);
      const bool quoted =
          quote != std::string::npos && rest.find('"') == equals + 1 &&
          rest.substr(equals + 2, quote - equals - 2).find_first_of("<&") == std::string::npos;
      REQUIRE_MESSAGE(quoted, tag);
      rest = rest.substr(quote + 1);
    }
    if (!closed) open.push_back(name);
  }
  REQUIRE(open.empty());
  REQUIRE(roots == 1);
  return elements;
}

double Number(const Element& element, const std::string& attribute) {
  const std::string key = " " + attribute + "=\"";
  const size_t at = element.attributes.find(key);
  REQUIRE(at != std::string::npos);
  return std::stod(element.attributes.substr(at + key.size()));
}

TEST_CASE("an SVG of every kind is well formed, a bar an action, inside the picture") {
  ForEachCase(ScheduleKinds(), {1, 2, 8}, {1, 16}, [&](const ScheduleCase& at) {
    ScheduleCosts costs{.stages = {{1, 1.25, 0.75}}, .transfer = 0.1};
    const Schedule schedule = InsertTransfers(at.Make(costs));
    const Simulation simulation = Simulate(schedule, costs);
    const std::vector<Element> elements = ParseXml(ScheduleSvg(schedule, simulation, "ms <&> \x01"));
    size_t computes = 0;
    for (const RankSimulation& rank : simulation.ranks) {
      for (const TimedAction& timed : rank.actions) computes += IsCompute(timed.action.kind);
    }
    size_t titles = 0;
    const double width = Number(elements[0], "width");
    const double height = Number(elements[0], "height");
    for (size_t i = 2; i < elements.size(); ++i) {
      if (elements[i].name == "title") ++titles;
      if (elements[i].name != "rect") continue;
      CHECK(Number(elements[i], "x") + Number(elements[i], "width") <= width);
      CHECK(Number(elements[i], "y") + Number(elements[i], "height") <= height);
    }
    CHECK_MESSAGE(titles == computes, at.Name());
    CHECK(width <= 8100);
  });
}

TEST_CASE("numbers of microbatches can be read with 8 ranks and 32 microbatches") {
  for (const ScheduleKind kind : ScheduleKinds()) {
    const Schedule schedule = ScheduleCase{kind, 8, TriedChunks(kind).back(), 32}.Make();
    const std::string svg = ScheduleSvg(schedule, Simulate(schedule));
    size_t numbers = 0;
    for (size_t at = svg.find(">31</text>"); at != std::string::npos; at = svg.find(">31</text>", at + 1))
      ++numbers;
    size_t expected = 0;
    for (const std::vector<Action>& actions : schedule.ranks) {
      for (const Action& action : actions) expected += action.microbatch == 31;
    }
    CHECK_MESSAGE(numbers == expected, std::string(ToString(kind)));
  }
}

TEST_CASE("kinds and chunks have colours of their own") {
  const Schedule schedule = ScheduleCase{ScheduleKind::kZbV, 2, 2, 3}.Make();
  const std::string svg = ScheduleSvg(schedule, Simulate(schedule));
  std::map<std::string, std::string> colour_of;  // by kind and chunk
  std::map<std::string, std::string> use_of;
  for (size_t at = svg.find("<title>"); at != std::string::npos; at = svg.find("<title>", at + 1)) {
    const size_t fill = svg.rfind("fill=\"", at) + 6;
    const std::string colour = svg.substr(fill, 7);
    const size_t name = at + std::strlen("<title>");
    const auto action = ParseAction(svg.substr(name, svg.find(' ', name) - name));
    REQUIRE(action.ok());
    const std::string use =
        StrCat(static_cast<int>(action->kind), " ", schedule.shape.ChunkOf(action->stage));
    CHECK(colour_of.emplace(use, colour).first->second == colour);
    CHECK(use_of.emplace(colour, use).first->second == use);
  }
  CHECK(colour_of.size() == 6);
}

TEST_CASE("in a page an SVG has the page's colours and names nothing elsewhere") {
  const Schedule schedule = ScheduleCase{ScheduleKind::k1F1B, 2, 1, 2}.Make();
  const std::string svg = ScheduleSvg(schedule, Simulate(schedule), "s", SvgPlace::kPage);
  ParseXml(StrCat("<?xml ?>\n", svg));
  CHECK(svg.starts_with("<svg "));
  CHECK(svg.find("://") == std::string::npos);
  CHECK(svg.find("currentColor") != std::string::npos);
}

TEST_CASE("without any time a picture is still one") {
  const ScheduleCosts costs{.stages = {{0, 0, 0}}};
  const Schedule schedule = ScheduleCase{ScheduleKind::k1F1B, 2, 1, 2}.Make(costs);
  const Simulation simulation = Simulate(schedule, costs);
  ParseXml(ScheduleSvg(schedule, simulation));
  CHECK(ScheduleText(schedule, simulation) == "rank 0 \nrank 1 \n");
}

TEST_CASE("as text") {
  const auto text = [](const ScheduleCase& at, int columns = 0, const ScheduleCosts& costs = {}) {
    const Schedule schedule = InsertTransfers(at.Make(costs));
    return "\n" + ScheduleText(schedule, Simulate(schedule, costs), columns);
  };
  CHECK(text({ScheduleKind::k1F1B, 2, 1, 3}) == R"(
rank 0 F0-F1-      BW0---F2-BW1---   BW2---
rank 1    F0-BW0---F1-BW1---F2-BW2---
)");
  CHECK(text({ScheduleKind::kZbV, 2, 2, 3}) == R"(
rank 0 F0aF1aF2aF0bB0bW0bF1bB1bW1bB0aW0aF2bB2bW2bB1aW1aB2aW2a
rank 1    F0aF0bF1aF1bB0bW0bF2aB0aW0aF2bB1bW1bB1aB2bB2aW1aW2bW2a
)");
  // A terminal of 29 columns: 22 for 12 time units.
  CHECK(text({ScheduleKind::k1F1B, 2, 1, 3}, 29) == R"(
rank 0 F0F1   BW0-F2BW1- BW2-
rank 1   F0BW0F1BW1-F2BW2
)");
  CHECK(text({ScheduleKind::kGPipe, 2, 1, 1}, 0, {.stages = {{2, 1, 1}}}) == R"(
rank 0 F0-      BW0
rank 1    F0-BW0
)");
}

}  // namespace
}  // namespace ftune
