#!/usr/bin/env python3
"""ftune plan --explain, --trace and --html: they agree with the plan's own numbers, and other programs can read them.

    test_plan_page.py --ftune BINARY --work FOLDER [NAMES...]
"""

import json
import re
import sys
from collections import Counter
from html.parser import HTMLParser

from cli_case import run_tests
from verify_recipe import parity_recipe

VOID = {"meta", "br", "hr", "img", "link"}
MESHES = {
    "one rank": ["train.global_batch_size=4"],
    "more entries than samples": ["parallel.pipeline=2", "parallel.schedule=gpipe", "train.global_batch_size=256"],
    "lora": ["adapter.lora_r=4", "data.eval=[none.jsonl]", "train.eval_steps=1"],
    "recomputed": ["memory.activation_checkpointing=full"],
    "states on disk": ["memory.offload=optimizer"],
    "zero 3": ["parallel.data=2", "parallel.zero=3", "train.global_batch_size=8"],
    "tensor": ["parallel.tensor=2", "parallel.sequence_parallel=true"],
    "pipeline": ["parallel.pipeline=2", "train.global_batch_size=8"],
    "zero bubble": ["parallel.pipeline=2", "parallel.schedule=zb-v", "train.global_batch_size=8"],
}


def write_recipe(case):
    parity_recipe(case, "llama")
    (case.folder / "recipe.yaml").write_text(
        "model: {path: llama}\ndata: {train: none.jsonl, sequence_len: 64}\n"
        "train: {global_batch_size: 4, micro_batch_size: 1}\nlaunch: {threads: 1}\n")
    return "recipe.yaml"


def planned(case, *words):
    done = case.run("plan", *words, "--json")
    assert done.returncode == 0, (words, done.stdout, done.stderr)
    return json.loads(done.stdout)


def by_category(tensors):
    sums = Counter()
    for tensor in tensors:
        assert tensor["total"] == tensor["bytes"] * tensor["count"] and tensor["count"] > 0, tensor
        sums[tensor["category"]] += tensor["total"]
    return sums


def test_explain(case):
    """What is alive at the peak is the peak, to the byte; weights are told apart by their blocks."""
    recipe = write_recipe(case)
    for name, words in MESHES.items():
        for role in planned(case, recipe, *words, "--explain")["roles"]:
            sums = by_category(role["explain"])
            assert {category: sums[category] for category in role["memory"]} == role["memory"], (name, role)
            sizes = [tensor["total"] for tensor in role["explain"]]
            assert sizes == sorted(sizes, reverse=True), (name, sizes)
            made_in = {tensor["category"]: set() for tensor in role["explain"]}
            for tensor in role["explain"]:
                made_in[tensor["category"]].add(tensor["made_in"])
            assert any(re.fullmatch(r"block \d+( to \d+)?", made) for made in made_in["weights"]), (name, made_in)
            assert "activations" not in made_in or any("block" in made for made in made_in["activations"]), (name, made_in)


def test_explain_words(case):
    recipe = write_recipe(case)
    done = case.run("plan", recipe, "--explain")
    assert done.returncode == 0, done
    for part in ("each rank: alive at the peak, in ", "made in, or part of", "block 1 to", "moment1 of block", " others"):
        assert part in done.stdout, (part, done.stdout)
    plain = case.run("plan", recipe)
    assert "alive at the peak" not in plain.stdout and done.stdout.startswith(plain.stdout), plain
    assert "explain" not in planned(case, recipe)["roles"][0]


def check_spans(spans, name):
    """Of a lane, each ends before the next begins, or around it."""
    slack = 1e-6  # of a microsecond's number in JSON
    for lane in {span["tid"] for span in spans}:
        open_spans = []
        for span in sorted((s for s in spans if s["tid"] == lane), key=lambda s: (s["ts"], -s["dur"])):
            assert span["dur"] >= 0 and span["ts"] >= 0 and span["name"], (name, span)
            while open_spans and open_spans[-1] <= span["ts"] + slack:
                open_spans.pop()
            end = span["ts"] + span["dur"]
            assert not open_spans or end <= open_spans[-1] + slack * max(1, end), (name, span, open_spans)
            open_spans.append(end)


def test_trace(case):
    recipe = write_recipe(case)
    for name, words in MESHES.items():
        plan = planned(case, recipe, *words, "--trace", "trace.json")
        assert plan["trace"] == "trace.json", plan
        events = json.loads((case.folder / "trace.json").read_text())["traceEvents"]
        names = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
        assert names == dict(enumerate(role["role"] for role in plan["roles"])), (name, names)
        for pid, role in enumerate(plan["roles"]):
            own = [event for event in events if event["pid"] == pid]
            counters = [event for event in own if event["ph"] == "C"]
            times = [event["ts"] for event in counters]
            assert times == sorted(times) and times[0] == 0, (name, times[:9])
            assert max((event["args"] for event in counters), key=lambda memory: sum(memory.values())) == role["step_after_save"], (name, role)
            assert counters[0]["args"]["weights"] == role["ready"]["weights"], (name, counters[0])
            assert len(counters) <= 4096, (name, len(counters))
            # Calls of several groups may be under way at a time.
            spans = [event for event in own if event["ph"] == "X"]
            assert {"compute", "step"} <= {span["cat"] for span in spans}, name
            check_spans([span for span in spans if span["cat"] != "communication"], name)


class Page(HTMLParser):
    """Sees to it that what opens is closed, and keeps what a test asks for."""

    def __init__(self, text):
        super().__init__()
        self.open, self.labels, self.headings, self.cells, self.links = [], [], [], 0, []
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        self.links += [named[key] for key in ("href", "src", "xlink:href", "srcset") if key in named]
        assert tag != "script", attributes
        self.cells += tag == "td"
        if tag == "svg":
            self.labels.append(named.get("aria-label", ""))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, (tag, self.open)
        self.open.pop()

    def handle_startendtag(self, tag, attributes):
        pass  # of SVG: closed in itself

    def handle_data(self, data):
        if self.open and self.open[-1] in ("h1", "h2", "title"):
            self.headings.append(data)


def test_page(case):
    """One file that needs nothing else: a plot of memory a role, a table of its tensors, the pipeline's schedule."""
    recipe = write_recipe(case)
    for name, words in MESHES.items():
        plan = planned(case, recipe, *words, "--html", "page.html")
        assert plan["html"] == "page.html", plan
        text = (case.folder / "page.html").read_text()
        page = Page(text)
        assert not page.links and "://" not in text and "url(" not in text and "@import" not in text, name
        plots = [label for label in page.labels if label.startswith("Memory of ")]
        assert plots == [f"Memory of {role['role']} over a step" for role in plan["roles"]], (name, plots)
        pipeline = "parallel.pipeline=2" in words
        assert ("The pipeline's schedule" in page.headings) == pipeline and page.labels.count("") == pipeline, (name, page.labels)
        assert "Plan of recipe.yaml" in page.headings and page.cells > 30 * len(plan["roles"]), (name, page.cells)
        assert len(re.findall(r'<text class="peak"[^>]*>(?:peak |highest of the step)', text)) == len(plan["roles"]), name
        for role in plan["roles"]:
            assert role["moment"] in text, (name, role)


def test_page_escapes(case):
    """A recipe's name is text, whatever is in it."""
    write_recipe(case)
    odd = "<b>&\"'.yaml"
    (case.folder / "recipe.yaml").rename(case.folder / odd)
    planned(case, odd, "--html", "page.html")
    text = (case.folder / "page.html").read_text()
    assert Page(text).headings[:2] == [f"Plan of {odd}"] * 2 and "<b>" not in text, text[:600]


def test_does_not_fit(case):
    """All is written, and the page says that it is too much."""
    recipe = write_recipe(case)
    done = case.run("plan", recipe, "train.micro_batch_size=1000000", "train.global_batch_size=1000000", "--explain",
                    "--html", "page.html", "--trace", "trace.json", "--json")
    assert done.returncode == 3, done
    (role,) = json.loads(done.stdout)["roles"]
    assert sum(by_category(role["explain"]).values()) == role["peak"] > role["capacity"], role
    text = (case.folder / "page.html").read_text()
    assert "does not fit" in text and "<line class=\"room\"" in text and json.loads((case.folder / "trace.json").read_text())


def test_wrong_input(case):
    recipe = write_recipe(case)
    (case.folder / "folder").mkdir()
    (case.folder / "file").write_text("kept")
    for flag in ("--trace", "--html"):
        case.fails(4, "plan", recipe, flag, "nowhere/out", says=["nowhere/out", "create"])
        case.fails(4, "plan", recipe, flag, "file/out", says=["file/out"])
        case.fails(4, "plan", recipe, flag, "folder", says=["folder"])
        case.fails(2, "plan", recipe, flag, "out", "--schedule", "out.svg", says=["--schedule"])
    case.fails(2, "plan", recipe, "--explain", "--schedule", "out.svg", says=["--schedule"])
    assert sorted(path.name for path in case.folder.iterdir() if path.name.startswith((".", "out"))) == [], list(case.folder.iterdir())


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
