#!/usr/bin/env python3
"""How the trainer gets its batches, through the ftune binary: counts, mixtures, packed evaluation, streaming.

Standard library only. `test_loading.py --ftune build/release/ftune --work FOLDER`.
"""

import json
import math
import os
import signal
import subprocess
import sys
import threading
import time

from cli_case import CHATS, run_tests


def steps(case, out="out"):
    return [line for line in case.log(out) if line["event"] == "train"]


def start(case, *arguments, **options):
    return subprocess.Popen([case.ftune, *map(str, arguments)], cwd=case.folder, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def write_for_ever(file):
    """Rows, until nobody reads them any more."""
    number = 0
    try:
        while True:
            question, answer = f"What is {number} plus 1?", f"It is {number + 1}."
            file.write(json.dumps({"messages": [{"role": "user", "content": question},
                                                {"role": "assistant", "content": answer}]}) + "\n")
            number += 1
    except BrokenPipeError:
        pass
    finally:
        try:
            file.close()
        except BrokenPipeError:
            pass


def test_counts(case):
    """What is said before the first step is what the run then has."""
    recipe = case.recipe()
    overrides = ("train.max_steps=null", "train.num_epochs=2")
    dry = json.loads(case.run("train", recipe, *overrides, "--dry-run", "--json").stdout)
    done = case.run("train", recipe, *overrides, "output_dir=out")
    assert done.returncode == 0, done.stderr
    begin, trained = case.log()[0], steps(case)
    assert dry["steps"] == begin["total_steps"] == len(trained) == trained[-1]["step"]
    first = [step for step in trained if step["epoch"] <= 1]
    for facts in (dry, begin):
        assert facts["samples"] == len(CHATS) and facts["steps_per_epoch"] == len(first)
        assert facts["tokens"] == sum(step["tokens"] for step in first)
        assert facts["trained_tokens"] == sum(step["trained_tokens"] for step in first)
        assert 0 < facts["fill"] <= 1 and facts["packs"] <= 2 * len(first)
        assert f"in {facts['packs']} packs" in done.stderr, done.stderr


def test_mixtures(case):
    """Interleaved entries share every batch; `epochs` ends an entry, and the run with the last of them."""
    case.rows([{"text": "a" * 40}] * 12, "a.jsonl")
    case.rows([{"text": "b" * 40}] * 36, "b.jsonl")
    sources = "[{path: a.jsonl, weight: 3}, b.jsonl]"
    recipe = case.recipe()
    done = case.run("inspect", recipe, f"data.train={sources}", "data.mix=interleave", "data.packing=false",
                    "train.global_batch_size=4", "train.max_steps=null", "--json", "--batches", 18)
    assert done.returncode == 0, done.stderr
    batches = json.loads(done.stdout)["batches"]
    assert len(batches) == 18, len(batches)
    kinds = [len({row["ids"][2] for row in step}) for step in batches]
    assert kinds == [2] * 18, kinds

    # A weight of 0: the rows are not even looked at.
    case.rows([{"broken": 1}], "broken.jsonl")
    dry = case.run("train", recipe, "data.train=[{path: broken.jsonl, weight: 0}, b.jsonl]", "--dry-run", "--json")
    assert dry.returncode == 0 and json.loads(dry.stdout)["samples"] == 36, dry.stdout + dry.stderr

    # Weights count in what is said: each row of a twice, half of b's.
    dry = case.run("train", recipe, "data.train=[{path: a.jsonl, weight: 2}, {path: b.jsonl, weight: 0.5}]", "--dry-run", "--json")
    facts = json.loads(dry.stdout)
    assert facts["samples"] == 24 + 18, facts

    sources = "[{path: a.jsonl, epochs: 1}, {path: b.jsonl, epochs: 1.5, max_samples: 8}]"
    done = case.run("train", recipe, f"data.train={sources}", "data.packing=false", "train.num_epochs=7",
                    "train.max_steps=null", "output_dir=out")
    assert done.returncode == 0, done.stderr
    assert len(steps(case)) == 10 + 2, len(steps(case))
    assert "used up" in done.stderr, done.stderr


def test_evaluation_packs(case):
    """The evaluation's loss does not depend on packing, nor on the size of its batches."""
    losses = []
    for overrides in (["data.packing=true"], ["data.packing=false"],
                      ["data.packing=false", "train.micro_batch_size=2"]):
        done = case.run("train", case.recipe(), "data.eval=chats.jsonl", "train.max_steps=1",
                        "optimizer.learning_rate=0", *overrides, "output_dir=out", "--force", "--quiet")
        assert done.returncode == 0, done.stderr
        losses.append([line for line in case.log() if line["event"] == "eval"][-1]["eval_loss"])
    assert all(math.isclose(loss, losses[0], rel_tol=1e-6) for loss in losses), losses


STREAM = ("data.streaming=true", "data.streaming_window=16", "train.num_epochs=1")


def test_streaming_standard_input(case):
    """Endless rows on standard input: the run ends after max_steps, whatever is still to come."""
    recipe = case.recipe("optimizer: {lr_scheduler: constant, learning_rate: 3e-3}\n", adapter=False)
    train = start(case, "train", recipe, "data.train=-", *STREAM, "train.max_steps=20", "output_dir=out",
                  stdin=subprocess.PIPE)
    writer = threading.Thread(target=write_for_ever, args=(train.stdin,))
    writer.start()
    said = train.stderr.read()
    assert train.wait(timeout=120) == 0, said
    writer.join(timeout=60)
    assert not writer.is_alive()
    assert len(steps(case)) == 20 and steps(case)[-1]["loss"] < steps(case)[0]["loss"]
    assert "not known beforehand" in said, said
    assert (case.folder / "out" / "model" / "config.json").exists()


def test_streaming_audit(case):
    """The first window is audited before the first step, by the same limits."""
    case.rows([{**CHATS[0], "messages": [{**m, "weight": 0} for m in CHATS[0]["messages"]]}] * 3 + CHATS)
    recipe = case.recipe()
    done = case.run("train", recipe, *STREAM, "train.max_steps=2", "data.audit.max_untrained_samples=1",
                    "output_dir=out", "--force")
    assert done.returncode == 0 and "audit: " in done.stderr and "[[" in done.stderr, done.stderr
    audit = json.loads((case.folder / "out" / "data" / "audit.json").read_text())
    assert audit["untrained_samples"] == 3 and "[[" in audit["first_sample"], audit
    case.fails(4, "train", recipe, *STREAM, "train.max_steps=2", "data.audit.max_untrained_samples=0", "output_dir=out2", "--force",
               says=["data.audit.max_untrained_samples"])


def test_streaming_file(case):
    """A file begins anew at its end, in another order; the run repeats itself exactly."""
    recipe = case.recipe()
    losses = []
    for out in ("one", "two"):
        done = case.run("train", recipe, *STREAM, "train.max_steps=9", f"output_dir={out}")
        assert done.returncode == 0, done.stderr
        losses.append([step["loss"] for step in steps(case, out)])
    assert losses[0] == losses[1] and len(losses[0]) == 9
    assert steps(case, "one")[-1]["epoch"] >= 1
    inspected = case.run("inspect", recipe, *STREAM, "--json", "--batches", 2)
    assert inspected.returncode == 0, inspected.stderr
    assert len(json.loads(inspected.stdout)["batches"]) == 2


def test_streaming_end(case):
    """Standard input that ends before max_steps: what was learned is saved, and the end is said."""
    rows = "".join(json.dumps(row) + "\n" for row in CHATS)
    done = case.run("train", case.recipe(), "data.train=-", *STREAM, "train.max_steps=1000", "output_dir=out",
                    text=rows)
    assert done.returncode == 0, done.stderr
    assert "the data ended after step" in done.stderr, done.stderr
    assert 0 < len(steps(case)) < 1000
    assert (case.folder / "out" / "adapter").exists()


def test_streaming_stops(case):
    """A signal while the input says nothing: the run ends at once, saved."""
    os.mkfifo(case.folder / "pipe")
    train = start(case, "train", case.recipe(), "data.train=pipe", *STREAM, "train.max_steps=5", "output_dir=out")
    with open(case.folder / "pipe", "w") as writer:
        writer.write(json.dumps(CHATS[0]) + "\n")
        writer.flush()
        time.sleep(2)
        train.send_signal(signal.SIGTERM)
        said = train.communicate(timeout=60)[1]
    assert train.returncode == 75, said
    assert list((case.folder / "out" / "checkpoints").glob("step-*/manifest.json"))


def test_streaming_bad_rows(case):
    """A broken row is named by file and line; a stream without a sample is an error; so is an empty one."""
    good = json.dumps(CHATS[0]) + "\n"
    recipe = case.recipe()
    (case.folder / "bad.jsonl").write_text(good * 3 + "{broken\n")
    case.fails(4, "train", recipe, "data.train=bad.jsonl", *STREAM, "--force", says=["bad.jsonl:4: error:"])
    case.fails(4, "train", recipe, "data.train=missing.jsonl", *STREAM, "--force", says=["missing.jsonl"])
    case.fails(4, "train", recipe, "data.train=-", *STREAM, "--force", text="", says=["standard input"])
    case.fails(4, "train", recipe, "data.sequence_len=4", *STREAM, "--force", says=["were dropped"])
    case.fails(2, "train", recipe, *STREAM, "train.max_steps=null", "--force", says=["train.max_steps"])


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
