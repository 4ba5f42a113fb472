#include "cmd/plan/page/html_page.h"

#include <algorithm>
#include <sstream>
#include <vector>

#include "base/markup.h"
#include "base/strings.h"
#include "cmd/plan/explain.h"
#include "cmd/plan/page/lane_plot.h"
#include "cmd/plan/page/memory_plot.h"
#include "cmd/plan/page/style.h"
#include "cmd/plan/plan_text.h"
#include "cmd/plan/time_text.h"

namespace ftune {
namespace {

std::string Element(std::string_view name, std::string_view css, std::string_view text) {
  const std::string begin = css.empty() ? StrCat("<", name, ">") : StrCat("<", name, " class=\"", css, "\">");
  return StrCat(begin, EscapeMarkup(text), "</", name, ">\n");
}

std::string Paragraphs(const std::string& text) {
  std::string html;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) html += Element("p", "", line);
  return html;
}

std::string HtmlTable(const std::vector<TableRow>& rows, std::string_view css) {
  std::string html = StrCat("<div class=\"wide\"><table class=\"", css, "\">\n");
  for (const TableRow& row : rows) {
    html += "<tr>";
    for (const std::string& cell : row) html += Element(&row == &rows.front() ? "th" : "td", "", cell);
    html += "</tr>\n";
  }
  return html + "</table></div>\n";
}

PlotTime TimeOf(const DryTrace& trace) {
  double seconds = trace.memory.back().seconds;
  for (const TimeSpan& span : trace.spans) seconds = std::max(seconds, span.end);
  return {.seconds = seconds, .timed = trace.timed};
}

std::string NoteOf(const PlanResult& plan, const PlotTime& time) {
  if (!time.timed) return "Time is told in allocations: the device is not known.";
  return plan.time->schedule ? "Without what the rank waits for other stages of the pipeline." : "";
}

std::string RoleSection(const RankRole& role, const PlanResult& plan) {
  const DryTrace& trace = role.dry.trace;
  const PlotTime time = TimeOf(trace);
  return StrCat("<section>\n", Element("h2", "", StrCat("Memory over a step: ", role.name)),
                MemoryPlot(role, plan.LedgerRoom(), time),
                trace.spans.empty() ? "" : LanePlot(trace.spans, role.name, time),
                Element("p", "", NoteOf(plan, time)),
                Element("p", "", StrCat("Alive at the peak, in ", role.dry.moment, ":")),
                HtmlTable(ExplainRows(role), "words"), "</section>\n");
}

}  // namespace

std::string PlanPage(const PlanResult& plan, const std::string& title, const std::string& schedule) {
  std::string html =
      StrCat("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n",
             "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n",
             Element("title", "", title), "<style>", kPageStyle, "</style>\n</head>\n<body>\n",
             Element("h1", "", title), Element("p", plan.fits() ? "fits" : "short", VerdictText(plan)),
             Paragraphs(HeadText(plan) + TimeText(plan)), HtmlTable(MemoryRows(plan), "names"));
  if (!schedule.empty()) {
    StrAppend(html, "<section>\n", Element("h2", "", "The pipeline's schedule"), "<div class=\"wide\">",
              schedule, "</div>\n</section>\n");
  }
  for (const RankRole& role : plan.mesh.roles) html += RoleSection(role, plan);
  return html + "</body>\n</html>\n";
}

}  // namespace ftune
