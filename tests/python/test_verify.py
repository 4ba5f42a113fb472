#!/usr/bin/env python3
"""`ftune verify`: the golden models on meshes of processes over shared memory, each compared with one rank; and what is
said of a mesh that is wrong.

    test_verify.py --ftune BINARY --work FOLDER [NAME …]
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from cli_case import run_tests
from verify_recipe import ADAPTER, parity_recipe


def check(case, recipe, meshes, *overrides, measures=("loss", "grad_norm", "gradient", "weights"),
          may_be_equal=False):
    """All meshes agree, and what is said of them has the shape that surface.md gives."""
    flags = [part for mesh in meshes for part in ("--mesh", mesh)]
    done = case.run("verify", recipe, *flags, *overrides, "--json")
    assert done.returncode == 0, f"{recipe} {overrides}: exit {done.returncode}\n{done.stdout}{done.stderr}"
    answer = json.loads(done.stdout)
    assert answer["ok"] is True and answer["exit"] == 0, answer
    assert [found["mesh"] for found in answer["meshes"]] == meshes, answer
    for found in answer["meshes"]:
        assert found["ok"] is True, found
        for kind in (*measures, "worst"):
            measure = found[kind]
            assert measure["name"] and 0 <= measure["error"] <= measure["tolerance"], found
        assert found["worst"] in [found[kind] for kind in measures], found
        # Another order of sums leaves something; nothing at all would be a comparison of nothing.
        assert found["worst"]["error"] > 0 or may_be_equal, found
    return answer["meshes"]


def test_llama(case):
    recipe = parity_recipe(case, "llama")
    check(case, recipe, ["data=2", "data=4,zero=3", "tensor=2,data=2,zero=2", "tensor=4,sequence_parallel=true"],
          "train.micro_batch_size=1")
    check(case, recipe, ["data=4,zero=1", "tensor=2,data=2,zero=3,sequence_parallel=true",
                         "tensor=2,data=4,zero=2,sequence_parallel=true"], ADAPTER, "train.micro_batch_size=3")


def test_qwen3(case):
    recipe = parity_recipe(case, "qwen3")
    check(case, recipe, ["data=3,zero=2", "tensor=2,sequence_parallel=true", "tensor=4,data=2,zero=3"],
          "train.micro_batch_size=2")
    check(case, recipe, ["tensor=4", "data=2,zero=3", "tensor=2,data=2,zero=1,sequence_parallel=true"], ADAPTER)


def test_gemma2(case):
    recipe = parity_recipe(case, "gemma2")
    check(case, recipe, ["data=4,zero=2", "tensor=2,data=2", "tensor=4,sequence_parallel=true"])
    check(case, recipe, ["data=4,zero=3,shard_size=2", "tensor=2,data=3,zero=3"], ADAPTER,
          "train.micro_batch_size=1")


def test_gpt2(case):
    recipe = parity_recipe(case, "gpt2")
    check(case, recipe, ["data=2,zero=1", "tensor=4,data=2,zero=2,sequence_parallel=true", "tensor=2,data=3,zero=3"],
          "train.micro_batch_size=2")
    check(case, recipe, ["data=3,zero=3", "tensor=2,data=2,zero=2", "tensor=2,sequence_parallel=true"], ADAPTER)


def test_adamw(case):
    """Its own tolerances; the recipe's own mesh does not count."""
    recipe = parity_recipe(case, "llama", "parallel: {data: 2, zero: 2}\n")
    found = check(case, recipe, ["tensor=2", "data=3,zero=3"], "optimizer.name=adamw", "optimizer.learning_rate=1e-3")
    assert all(mesh["weights"]["name"] == "movement of all weights" for mesh in found), found


def test_microbatches(case):
    """Those of the recipe where it says how many, on one rank and on every mesh that can have them."""
    recipe = parity_recipe(case, "llama")
    given = ["train.micro_batch_size=2", "train.gradient_accumulation_steps=6"]
    done = case.run("verify", recipe, "--mesh", "pipeline=2", "--mesh", "data=2", "--mesh", "data=3,pipeline=2",
                    "--steps", 1, *given)
    assert done.returncode == 0, done.stderr
    assert "data=3,pipeline=2: 2 microbatches a step; the recipe's 6 do not divide" in done.stderr, done.stderr
    assert done.stderr.count("microbatches a step") == 1, done.stderr
    # A schedule of so many microbatches fits no other number.
    schedule = case.folder / "six.csv"
    ranks = ["".join(f"F{stage}.{m}," for m in range(6)) + ",".join(f"BW{stage}.{m}" for m in range(6))
             for stage in range(2)]
    schedule.write_text("\n".join(ranks) + "\n")
    check(case, recipe, [f"pipeline=2,schedule={schedule}", f"pipeline=2,data=2,schedule={schedule}"], *given,
              may_be_equal=True)
    case.fails(4, "verify", recipe, "--mesh", f"pipeline=2,data=3,schedule={schedule}", *given,
               says=["another number of microbatches", "found 6", "expected 2"])


def test_words(case):
    done = case.run("verify", parity_recipe(case, "llama"), "--mesh", "tensor=2", "--steps", 1)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "tensor=2: agrees with one rank" and len(lines) == 5, done.stdout
    assert "loss of step 1: off by" in lines[1] and "epsilons" in lines[1], done.stdout
    assert not list(case.folder.glob("out*")), "a run is left"


def test_rank_killed(case):
    """The error names a log, which is there; and nothing else is left."""
    scratch = case.folder / "tmp"
    scratch.mkdir()
    recipe = parity_recipe(case, "llama", "launch: {heartbeat_timeout: 2s}\n")
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    for steps, left in ((3, False), (1000000, True)):
        process = subprocess.Popen(
            [case.ftune, "verify", recipe, "--mesh", "data=2", f"--steps={steps}", "train.max_steps=1000000",
             "train.num_epochs=1000000"], cwd=case.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=case.environment({"TMPDIR": str(scratch.resolve()), "FTUNE_TEST_MARK": mark}))
        if left:
            os.kill(rank_process(process, mark), signal.SIGKILL)
        out, err = process.communicate(timeout=60)
        assert process.returncode == (5 if left else 0), (process.returncode, out, err)
        if left:
            log = Path(re.search(r"rank 0: it was killed by .* its log is (\S+/rank-0\.log)", err).group(1))
            assert log.is_file() and scratch in log.parents, log
            assert all(path.is_dir() or path.suffix == ".log" for path in scratch.rglob("*")), list(scratch.rglob("*"))
        else:
            assert not list(scratch.iterdir()), list(scratch.iterdir())


def rank_process(verify, mark):
    """→ the number of the process of rank 0, once it has threads: it trains"""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        assert verify.poll() is None, verify.communicate()
        for folder in Path("/proc").iterdir():
            try:
                variables = (folder / "environ").read_bytes().split(b"\0") if folder.name.isdigit() else []
                if {b"RANK=0", f"FTUNE_TEST_MARK={mark}".encode()} <= set(variables):
                    return int(folder.name)
            except OSError:
                pass  # it has ended meanwhile
        time.sleep(0.01)
    raise AssertionError("no rank")


def test_pipes(case):
    """What can be read once is not enough for several runs."""
    recipe = parity_recipe(case, "llama")
    os.mkfifo(case.folder / "fifo.jsonl")
    for data in ("fifo.jsonl", "-"):
        case.fails(2, "verify", recipe, "--mesh", "data=2", f"data.train={data}", text="",
                   says=["data.train", f"'{data}', a pipe, for several runs", "to a file"])
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as pipe:
        pipe.write((case.folder / recipe).read_text())
    done = subprocess.run([case.ftune, "verify", f"/dev/fd/{reader}", "--mesh", "data=2"], cwd=case.folder,
                          pass_fds=[reader], capture_output=True, text=True, timeout=60, env=case.environment())
    os.close(reader)
    assert done.returncode == 2 and "regular file" in done.stderr and done.stderr.count("error:") == 1, done.stderr


def test_reader_leaves(case):
    """It goes on to its end, and removes what it made."""
    scratch = case.folder / "tmp"
    scratch.mkdir()
    process = subprocess.Popen([case.ftune, "verify", parity_recipe(case, "llama"), "--mesh", "data=2"], cwd=case.folder,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=case.environment({"TMPDIR": str(scratch.resolve())}))
    process.stdout.close()
    process.stderr.close()
    assert process.wait(timeout=60) == 0
    assert not list(scratch.iterdir()), list(scratch.iterdir())


def test_wrong_input(case):
    recipe = parity_recipe(case, "llama")
    for mesh, says in (("tensors=2", ["--mesh", "'tensors=2'", "K=V"]), ("tensor", ["--mesh", "'tensor'", "K=V"]),
                       ("", ["--mesh", "K=V"]), ("tensor=2,", ["--mesh", "K=V"]),
                       ("data=2,data=4", ["--mesh", "data is there twice"]),
                       ("tensor=x", ["parallel.tensor", "found x"]), ("data=0", ["parallel.data", "found 0"]),
                       ("zero=4", ["parallel.zero", "from 0 to 3"]), ("pipeline=5", ["parallel.pipeline", "5 stages"]),
                       ("data=5", ["train.global_batch_size", "found 12", "multiple of parallel.data 5"]),
                       ("tensor=3", ["parallel.tensor", "4 heads", "one of 1, 2, 4"]),
                       ("data=4,shard_size=3,zero=2", ["parallel.shard_size", "a divisor"])):
        case.fails(2, "verify", recipe, "--mesh", "data=2", "--mesh", mesh, says=says)
        # Before anything ran.
        done = case.run("verify", recipe, "--mesh", "data=2", "--mesh", mesh)
        assert "data=2: agrees" not in done.stdout, (mesh, done.stdout)
    case.fails(2, "verify", recipe, says=["--mesh is required"])
    for steps in ("0", "-1", "x"):
        case.fails(2, "verify", recipe, "--mesh", "data=2", "--steps", steps, says=["--steps"])
    case.fails(2, "verify", recipe, "--mesh", "data=2", "train.nothing=1", says=["train.nothing"])
    case.fails(4, "verify", recipe, "--mesh", "data=2", "--steps", 10,
               says=["the data ends after 6 steps", "expected 10", "lower --steps"])
    case.fails(7, "verify", recipe, "--mesh", "data=2", "optimizer.learning_rate=1e30", "optimizer.max_grad_norm=null",
               says=["on one rank: there is nothing to compare with", "finite numbers"])


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
