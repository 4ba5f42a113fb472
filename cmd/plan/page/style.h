// How the page of a plan looks, on light and on dark screens.
#pragma once

#include <string_view>

namespace ftune {

// Classes: c0 to c5 the categories of memory, l0 to l3 the lanes, both in their order in the program.
inline constexpr std::string_view kPageStyle = R"(
:root { color-scheme: light dark; --text: #1c1e21; --faint: #6b7078; --line: #d9dce1; --page: #ffffff;
  --bad: #b3261e; --good: #1b7a3d; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e4e6ea; --faint: #9aa0a8; --line: #3a3f47; --page: #17191d; --bad: #ff8a80; --good: #6fd18f; }
}
body { margin: 2rem auto; max-width: 72rem; padding: 0 1rem; font: 15px/1.5 system-ui, sans-serif;
  color: var(--text); background: var(--page); }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
.fits { color: var(--good); } .short { color: var(--bad); } .fits, .short { font-weight: 600; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1rem 0; }
th, td { padding: .25rem .75rem .25rem 0; text-align: right; border-bottom: 1px solid var(--line); white-space: nowrap; }
th { font-weight: 600; color: var(--faint); }
.names td:first-child, .names th:first-child { text-align: left; }
.words td:nth-last-child(-n+2), .words th:nth-last-child(-n+2) { text-align: left; padding-left: .75rem; }
svg { display: block; } svg[viewBox] { width: 100%; height: auto; margin: 1rem 0; }
svg[viewBox] text { font: 11px system-ui, sans-serif; fill: var(--text); }
.grid { stroke: var(--line); stroke-width: .5; } .axis { stroke: var(--faint); }
line.room { stroke: var(--bad); stroke-dasharray: 6 4; } svg text.room { fill: var(--bad); }
line.peak { stroke: var(--text); stroke-dasharray: 2 3; } circle.peak { fill: var(--page); stroke: var(--text); stroke-width: 2; }
svg text.peak { font-weight: 600; }
.c0 { fill: #4e79a7; } .c1 { fill: #e15759; } .c2 { fill: #59a14f; } .c3 { fill: #f28e2b; } .c4 { fill: #b07aa1; }
.c5 { fill: #76b7b2; }
.l0 { fill: #4e79a7; } .l1 { fill: #e15759; } .l2 { fill: #59a14f; } .l3 { fill: #9c9ea6; }
)";

}  // namespace ftune
