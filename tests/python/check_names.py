#!/usr/bin/env python3
"""No two files define types of one qualified name: a program with both has one of them twice (C++20, [basic.def.odr]).

    check_names.py

What stands in unnamed namespaces, and tests, which are programs of their own, may repeat names.
"""

import collections
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TYPE = re.compile(r"(?:struct|class|enum(?: class)?)\s+(\w+)(?:\s+final)?\s*(?::\s*[^:].*|\{.*)?$")


def types_of(text):
    """Qualified names of the types that are defined at a namespace's level."""
    spaces = []
    for line in text.splitlines():
        opened = re.match(r"(?:inline )?namespace\s*([\w:]*)\s*\{$", line)
        if opened:
            spaces.append(opened[1])
        elif line.startswith("}  // namespace"):
            spaces.pop()
        found = TYPE.match(line)
        if found and "" not in spaces and "{" in line:
            yield "::".join([*spaces, found[1]])


def main():
    files = subprocess.run(["git", "ls-files", "*.h", "*.cc"], cwd=ROOT, capture_output=True, text=True, check=True)
    defined = collections.defaultdict(set)
    for file in files.stdout.split():
        if not file.startswith("tests/"):
            for name in types_of((ROOT / file).read_text()):
                defined[name].add(file)
    assert len(defined) > 500, f"only {len(defined)} types were found"
    twice = {name: sorted(places) for name, places in defined.items() if len(places) > 1}
    for name, places in sorted(twice.items()):
        print(f"{name} is defined in {', '.join(places)}")
    return 1 if twice else 0


if __name__ == "__main__":
    sys.exit(main())
