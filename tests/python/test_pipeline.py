#!/usr/bin/env python3
"""Pipelines through the ftune binary: every kind of schedule gives the curve and the model of one rank; what is wrong with
a pipeline is said before it runs; and nobody waits for a stage that is dead.

    test_pipeline.py --ftune BINARY --work FOLDER [NAME …]
"""

import json
import os
import re
import signal
import sys
import time
import xml.etree.ElementTree

from cli_case import random_model, run_tests, tensors
from test_ranks import LONG, Run, losses
from verify_recipe import ADAPTER, parity_recipe

TWO, FOUR = "parallel.pipeline=2", "parallel.pipeline=4"
INTERLEAVED = ["parallel.schedule=interleaved", "parallel.virtual_stages=2"]
NO_CLIPPING = "optimizer.max_grad_norm=null"
ZERO3 = ["parallel.data=2", "parallel.zero=3", "parallel.persistence_threshold=0"]


def schedule(name):
    return f"parallel.schedule={name}"


def models(case):
    """Of eight blocks, which four ranks can have two stages each of, with heads that two can share."""
    for name, tied in (("tied", True), ("untied", False)):
        random_model(case.folder / name, hidden_size=32, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2,
                     head_dim=8, intermediate_size=48, tie_word_embeddings=tied)


def train(case, recipe, run, *arguments):
    """Steps of 8, 4 and 8 microbatches, one at a time. → what was said"""
    done = case.run("train", recipe, "train.global_batch_size=8", "train.gradient_accumulation_steps=auto", "train.micro_batch_size=1",
                    "data.packing=false", "launch.threads=1", "optimizer.eps=1e-5", f"output_dir={run}", "--force", *arguments)
    assert done.returncode == 0, (arguments, done.stderr[-4000:])
    return done.stderr


def check_same(case, recipe, meshes, *options):
    """The curve of each mesh is that of one rank, and so is its result."""
    adapter = "adapter" in (case.folder / recipe).read_text()
    file = "adapter/adapter_model.safetensors" if adapter else "model/model.safetensors"
    train(case, recipe, "one", *options)
    expected, whole = losses(case, "one"), tensors(case.folder / "one" / file)
    assert len(expected) == 3 and len(set(expected)) == 3, expected
    facts = case.log("one")[0]
    for mesh in meshes:
        train(case, recipe, "mesh", *options, *mesh)
        found = losses(case, "mesh")
        assert all(abs(a - b) <= 1e-5 for a, b in zip(found, expected, strict=True)), (options, mesh, found, expected)
        for fact in ("parameters", "trainable_parameters"):
            assert case.log("mesh")[0][fact] == facts[fact], (mesh, fact, case.log("mesh")[0], facts)
        saved = tensors(case.folder / "mesh" / file)
        assert list(saved) == list(whole), (mesh, list(saved), list(whole))
        for name, values in whole.items():
            worst = max(abs(a - b) for a, b in zip(saved[name], values, strict=True))
            assert worst <= 1e-6, (options, mesh, name, worst)
    return whole


def test_schedules(case):
    models(case)
    recipe = case.recipe(model="tied", adapter=False)
    drawn = case.run("plan", recipe, "--schedule", "own.csv", "train.global_batch_size=8", "train.micro_batch_size=1", TWO, schedule("zb-h1"))
    assert drawn.returncode == 0, drawn.stderr
    check_same(case, recipe, ([TWO], [TWO, *INTERLEAVED], [TWO, schedule("zb-h1")], [TWO, schedule("zb-v")], [TWO, schedule("own.csv")],
                              [FOUR], [FOUR, *INTERLEAVED], [FOUR, schedule("v-min")]))


def test_meshes(case):
    models(case)
    tensor = ["parallel.tensor=2", "parallel.sequence_parallel=true"]
    check_same(case, case.recipe(model="untied", adapter=False),
               ([TWO, schedule("gpipe"), "parallel.stages=[1,5]"], [TWO, *tensor, schedule("zb-h1")],
                [TWO, schedule("zb-v"), "parallel.data=2", "parallel.zero=1"], [TWO, *ZERO3],
                [TWO, *ZERO3, "parallel.reshard_after_forward=false"]))
    check_same(case, case.recipe(model="tied", adapter=False), ([TWO, *tensor], [TWO, *ZERO3, *INTERLEAVED]))


def test_adapters(case):
    models(case)
    recipe = case.recipe(model="tied")
    check_same(case, recipe, ([TWO], [FOUR, schedule("zb-h1")], [TWO, *ZERO3]))
    saved = check_same(case, recipe, ([TWO], [TWO, schedule("zb-v")]), "adapter.modules_to_save=[embed_tokens]")
    assert {name.split(".")[-2] for name in saved} >= {"embed_tokens", "lm_head"}, list(saved)
    check_same(case, recipe, ([FOUR],), "adapter.quantize=int8")
    train(case, recipe, "begun")
    check_same(case, recipe, ([TWO],), "model.init_from=begun")
    # Nothing trains below the last stages.
    frozen = r"train.freeze=['embed_tokens', 'layers\.[0-3]\.']"
    check_same(case, case.recipe(model="untied", adapter=False), ([FOUR], [TWO, schedule("zb-h1")]), frozen)


def test_stops_and_answers(case):
    """Evaluations, answers to prompts and the end that early stopping makes are those of one rank."""
    models(case)
    recipe = case.recipe(model="tied", adapter=False)
    more = ['train.sample_prompts=["What is 2 plus 2?", "Hello"]', "train.sample_max_new_tokens=8", "data.val_set_size=3",
            "train.eval_steps=1", "train.early_stopping_patience=1", "train.max_steps=6", "train.num_epochs=9",
            "optimizer.learning_rate=0.02", "optimizer.lr_scheduler=constant"]

    def facts(run):
        return [(line["step"], line["samples"], round(line["eval_loss"], 4)) for line in case.log(run) if line["event"] == "eval"]

    train(case, recipe, "one", *more)
    assert facts("one"), case.log("one")
    for mesh in ([TWO], [FOUR, schedule("1f1b")], [TWO, schedule("zb-v"), "parallel.tensor=2"]):
        train(case, recipe, "mesh", *more, *mesh)
        assert facts("mesh") == facts("one"), (mesh, facts("mesh"), facts("one"))


def check_log(case, run):
    """Every step is there once, in order. → their number"""
    steps = [line["step"] for line in case.log(run) if line["event"] == "train"]
    assert steps and steps == list(range(1, len(steps) + 1)), (run, steps)
    return len(steps)


def test_steps_ahead(case):
    """Where nothing is clipped, stages go on to the next step before this one is known to be good: curve, log, evaluations
    and result are those of one rank all the same."""
    models(case)
    recipe = case.recipe(model="tied", adapter=False)
    meshes = [TWO, schedule("zb-h2")], [FOUR, schedule("zb-v")], [TWO, schedule("zb-v"), "parallel.tensor=2"], [TWO, schedule("zb-h2"), *ZERO3]
    check_same(case, recipe, meshes, NO_CLIPPING)
    waits = "to let stages update without waiting"
    more = ["train.num_epochs=9", "train.max_steps=8", "data.val_set_size=3", "train.eval_steps=3"]
    train(case, recipe, "one", NO_CLIPPING, *more)
    for mesh in meshes:
        for clipping in ([NO_CLIPPING], []):
            said = train(case, recipe, "mesh", *more, *mesh, *clipping)
            assert (waits in said) == (not clipping), said
            assert check_log(case, "mesh") == check_log(case, "one") > 6
        train(case, recipe, "mesh", *more, *mesh, NO_CLIPPING)
        for event, key in (("train", "loss"), ("train", "grad_norm"), ("train", "tokens"), ("eval", "eval_loss")):
            found, expected = ([(line["step"], line[key]) for line in case.log(run) if line["event"] == event] for run in ("mesh", "one"))
            assert len(found) == len(expected) and all(a == c and abs(b - d) <= 1e-5 * max(1, abs(d))
                                                       for (a, b), (c, d) in zip(found, expected)), (mesh, key, found, expected)


def test_stop_ahead(case):
    """A signal ends all stages at one step, which is in the log, and its model is saved."""
    run = Run(case, *slow_recipe(case), TWO, schedule("zb-h2"), NO_CLIPPING)
    run.wait_for_steps(3)
    run.process.send_signal(signal.SIGTERM)
    run.end(75, says=["stopped by SIGTERM"])
    end = case.log("out")[-1]
    assert end["event"] == "end" and end["step"] == check_log(case, "out"), end


def test_words(case):
    models(case)
    recipe = case.recipe(model="tied", adapter=False)
    said = train(case, recipe, "out", TWO, "parallel.stages=[2,4]", "parallel.data=2", "train.global_batch_size=8")
    for line in ("pipeline: 1f1b, 2 stages on 2 ranks, 4 microbatches a step", "stage 0: embedding, layers 0-1 on ranks 0-1",
                 "stage 1: layers 2-5, head on ranks 2-3"):
        assert line in said, (line, said)
    assert "warning: a step has fewer microbatches" not in said, said
    said = train(case, recipe, "out", FOUR, "train.global_batch_size=2")
    assert "warning: a step has fewer microbatches (2) than there are stages (4)" in said, said


def test_verify(case):
    recipe = parity_recipe(case, "llama")
    meshes = ["pipeline=2", "pipeline=2,schedule=zb-h1", "pipeline=4", "pipeline=2,schedule=zb-v,tensor=2",
              "pipeline=2,data=2,zero=3", "pipeline=2,stages=[1,1]"]
    flags = [part for mesh in meshes for part in ("--mesh", mesh)]
    for more in ([], [ADAPTER]):
        done = case.run("verify", recipe, *flags, "train.micro_batch_size=2", *more, "--json")
        assert done.returncode == 0, (done.stdout, done.stderr)
        found = json.loads(done.stdout)["meshes"]
        assert [mesh["mesh"] for mesh in found] == meshes and all(mesh["ok"] for mesh in found), found
        # Stages alone may compute one rank's very sums; slices of a sum, and sums over ranks, are rounded otherwise.
        assert all(mesh["worst"]["error"] > 0 for mesh in found if "tensor=" in mesh["mesh"] or "data=" in mesh["mesh"]), found


def test_plan(case):
    """The picture, the file and the words of a schedule; of a model's config.json alone."""
    models(case)
    (case.folder / "tied" / "model.safetensors").unlink()
    recipe = case.recipe(model="tied", adapter=False)
    more = [TWO, "train.global_batch_size=8", "train.micro_batch_size=2", "--schedule"]
    done = case.run("plan", recipe, *more, "out.svg", "--json")
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert answer["file"] == "out.svg" and answer["schedule"] == "1f1b" and answer["microbatches"] == 4, answer
    assert [rank["peak_live"] for rank in answer["ranks"]] == [2, 1] and sum(s["blocks"] for s in answer["stages"]) == 8, answer
    assert 0 < answer["bubble"] < 0.5 < answer["time"], answer
    assert "time_without_barrier" not in answer, answer
    answer = json.loads(case.run("plan", recipe, *more, "out.svg", schedule("zb-h2"), "--json").stdout)
    busiest = max(rank["busy"] for rank in answer["ranks"])
    assert busiest <= answer["time_without_barrier"] < answer["time"], answer
    assert xml.etree.ElementTree.parse(case.folder / "out.svg").getroot().tag.endswith("svg")
    done = case.run("plan", recipe, *more, "out.csv", schedule("zb-v"))
    assert done.returncode == 0, done.stderr
    lines = (case.folder / "out.csv").read_text().splitlines()
    assert len(lines) == 2 and all(len(line.split(",")) == 2 * 3 * 4 for line in lines), lines
    assert "stage 3: " in done.stdout and re.search(r"a step takes [\d.]+ units.*% of the ranks' time is bubble", done.stdout), done.stdout
    assert re.search(r"many steps take [\d.]+ units each where ranks do not wait", done.stdout), done.stdout
    # The file is a schedule for the same recipe, with its stages a rank.
    done = case.run("plan", recipe, *more, "again.csv", schedule("out.csv"), "parallel.virtual_stages=2")
    assert done.returncode == 0, done.stderr
    assert (case.folder / "again.csv").read_text().splitlines() == lines
    # Nothing trains in a frozen base but the adapter's own: hardly any W. What it computes itself is counted.
    done = case.run("plan", recipe, *more, "out.txt", "adapter.lora_r=4", "--json")
    stages = json.loads(done.stdout)["stages"]
    assert all(stage["backward_weight"] < 0.5 * stage["forward"] for stage in stages), stages
    assert "F0" in (case.folder / "out.txt").read_text()
    hidden, rank, projections = 32, 16, {"q_proj": 32, "k_proj": 16}
    def layer(adapters):
        """Multiply-adds a token: products, and attention to half of 128 tokens."""
        return 32 * (2 * 32 + 2 * 16 + 3 * 48) + 32 * 128 + adapters
    adapters = sum(rank * (hidden + outputs) for outputs in projections.values())
    head = 32 * json.loads((case.folder / "tied" / "config.json").read_text())["vocab_size"]
    done = case.run("plan", recipe, *more, "out.txt", "adapter.lora_r=16", "adapter.target_modules=[q_proj,k_proj]",
                    "parallel.stages=[5,1]", "--json")
    stages = json.loads(done.stdout)["stages"]
    ratio = (32 + 5 * layer(adapters)) / (layer(adapters) + head)
    assert abs(stages[0]["forward"] / stages[1]["forward"] / ratio - 1) < 1e-6, (stages, ratio)
    assert abs(stages[0]["backward_weight"] / stages[0]["forward"] / (5 * adapters / (32 + 5 * layer(adapters))) - 1) < 1e-6, stages
    case.fails(2, "plan", recipe, TWO, "--schedule", "out.png", says=["--schedule", "out.png", ".svg"])


def test_wrong_input(case):
    models(case)
    recipe = case.recipe(model="tied", adapter=False)
    common = ["train.global_batch_size=2", "train.micro_batch_size=1", "output_dir=out"]
    good = ["F0.0,F0.1,BW0.0,BW0.1", "F1.0,BW1.0,F1.1,BW1.1"]
    files = {"cycle": [good[0], "BW1.0,F1.0,F1.1,BW1.1"], "missing": [good[0], "F1.0,BW1.0,F1.1"],
             "rank": ["F0.0,F0.1,BW0.0,BW0.1,F1.0", "BW1.0,F1.1,BW1.1"], "lines": [good[0]],
             "other": ["F0.0,BW0.0", "F1.0,BW1.0"], "word": [good[0].replace("F0.1", "X0.1"), good[1]], "stages": good}
    for name, lines in files.items():
        (case.folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    for code, more, says in (
            (2, ["parallel.pipeline=9"], ["parallel.pipeline", "9 stages", "at most 8"]),
            (2, ["parallel.pipeline=5", *INTERLEAVED], ["parallel.pipeline", "10 stages", "at most 8"]),
            (2, [TWO, "parallel.stages=[3,4]"], ["parallel.stages", "[3, 4]", "add up to the model's 6 layers"]),
            (2, [TWO, "parallel.stages=[6]"], ["parallel.stages", "2 numbers"]),
            (2, [FOUR, "parallel.stages=[3,0,3,0]"], ["parallel.stages", "at least one layer"]),
            (2, [TWO, schedule("1f2b")], ["parallel.schedule", "did you mean 1f1b"]),
            (2, [TWO, schedule("interleaved")], ["parallel.schedule", "parallel.virtual_stages to 2"]),
            (2, [TWO, "parallel.virtual_stages=2"], ["parallel.virtual_stages", "interleaved"]),
            (2, [TWO, schedule("zb-v"), "parallel.virtual_stages=3"], ["parallel.virtual_stages", "2 with zb-v"]),
            (2, [schedule("zb-h1")], ["parallel.schedule", "no effect"]),
            (2, ["parallel.stages=[3,3]"], ["parallel.stages", "no effect"]),
            (2, ["parallel.reshard_after_forward=false"], ["parallel.reshard_after_forward", "parallel.zero: 3"]),
            (2, [TWO, "parallel.data=2", "parallel.compression=int8"], ["parallel.compression", "embed_tokens", "tied"]),
            (2, ["parallel.context=2"], ["parallel.context"]),
            (4, [TWO, schedule("nowhere.csv")], ["nowhere.csv"]),
            (4, [TWO, schedule("cycle.csv")], ["cycle.csv:2", "field 1 (BW1.0)"]),
            (4, [TWO, schedule("missing.csv")], ["missing.csv"]),
            (4, [TWO, schedule("rank.csv")], ["rank.csv:1", "F1.0"]),
            (4, [TWO, schedule("lines.csv")], ["lines.csv", "found 1 line,", "expected 2"]),
            (4, [TWO, schedule("other.csv")], ["other.csv", "microbatches", "found 1", "expected 2"]),
            (4, [TWO, schedule("word.csv")], ["word.csv:1", "field 2", "X0.1"]),
            (4, [TWO, schedule("stages.csv"), "parallel.virtual_stages=2"], ["stages.csv", "found 1", "expected 2", "parallel.virtual_stages"])):
        case.fails(code, "train", recipe, *common, *more, "--force", says=says)
    assert not (case.folder / "out" / "log.jsonl").exists()


def slow_recipe(case):
    random_model(case.folder / "model", hidden_size=384, intermediate_size=1024, num_hidden_layers=4,
                 num_attention_heads=6, num_key_value_heads=2, head_dim=64)
    return case.recipe("launch: {heartbeat_timeout: 2s, threads: 1}\n", model="model", adapter=False), \
        "--force", f"train.max_steps={LONG}", f"train.num_epochs={LONG}", "train.micro_batch_size=1", "train.global_batch_size=4"


def test_lost_stage(case):
    """A stage that is killed or stopped in the midst of a step ends the run for all."""
    arguments = slow_recipe(case)
    for mesh, victim in (([TWO], 1), ([FOUR, schedule("zb-h1")], 2), ([TWO, schedule("zb-v")], 0),
                         ([FOUR, schedule("zb-h2"), NO_CLIPPING], 3), ([TWO, schedule("zb-v"), NO_CLIPPING], 0)):
        run = Run(case, *arguments, *mesh)
        pid = run.rank(victim)
        run.wait_for_steps(1)
        time.sleep(0.1)
        os.kill(pid, signal.SIGKILL)
        run.end(5, says=[f"rank {victim}: it was killed by signal 9 (SIGKILL)"], seconds=20)
    silent, late = [], ["launch.heartbeat_timeout=100s", "launch.step_timeout=2s"]
    ahead = [schedule("zb-h2"), NO_CLIPPING]
    for more, code, says in ((silent, 5, "nothing was heard"), (late, 6, "it did not come to"), ([*late, *ahead], 6, "it did not come to")):
        run = Run(case, *arguments, TWO, *more)
        pid = run.rank(1)
        run.wait_for_steps(1)
        os.kill(pid, signal.SIGSTOP)
        begin = time.monotonic()
        run.end(code, says=["error: rank 1: ", says, f"rank 1 (pid {pid}) is stopped"], seconds=30)
        assert time.monotonic() - begin < 12, time.monotonic() - begin


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
