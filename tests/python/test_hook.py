#!/usr/bin/env python3
"""log.hook: the command is fed the lines of log.jsonl as they are written, never holds training up, and ends with the run.

Standard library only. `test_hook.py --ftune build/release/ftune --work FOLDER`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from cli_case import HERE, run_tests

HOOKS = HERE.parent.parent / "recipes" / "hooks"
COLLECT = """import os, sys
with open(f"lines-{os.environ['FTUNE_ATTEMPT']}.jsonl", "w") as out:
    print("collecting", os.environ["FTUNE_RUN"], flush=True)
    for line in sys.stdin:
        out.write(line)
        out.flush()
"""


def wait_until(condition, what, seconds=60):
    """The time only ends a hang."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not after {seconds} s: {what}"
        time.sleep(0.02)
    return found


def hooks_of(case):
    """The processes of the hooks of this test's run, whatever has become of their parents."""
    mark = f"FTUNE_RUN={case.folder.resolve() / 'out'}".encode()
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if mark in environment:
            found.append(int(pid))
    return found


def train(case, hook, *words, code=0):
    done = case.run("train", case.recipe(), f"log.hook={hook}", "output_dir=out", "--force", *words)
    assert done.returncode == code, done.stderr
    assert not hooks_of(case), done.stderr
    # On a machine that is busy a command may take its time to end.
    return "".join(line for line in done.stderr.splitlines(keepends=True) if not line.startswith("waiting for log.hook"))


def begin(case, hook, *words, command=("train", "recipe.yaml", "output_dir=out")):
    case.recipe()
    return subprocess.Popen([case.ftune, *command, f"log.hook={hook}", "train.num_epochs=100000", *words], cwd=case.folder,
                            stderr=subprocess.PIPE, text=True, env=case.environment(), process_group=0)


def text(case, name):
    path = case.folder / name
    return path.read_text() if path.exists() else ""


def test_lines(case):
    """Those of the attempt, in the folder where ftune was called; what the command prints is in hook.log."""
    (case.folder / "collect.py").write_text(COLLECT)
    said = train(case, "python3 collect.py")
    assert "log.hook" not in said, said
    lines = text(case, "out/log.jsonl")
    assert text(case, "lines-1.jsonl") == lines and '"end"' in lines
    assert text(case, "out/hook.log") == f"collecting {case.folder.resolve() / 'out'}\n"
    done = case.run("resume", "out", "train.max_steps=5")
    assert done.returncode == 0, done.stderr
    assert text(case, "lines-1.jsonl") + text(case, "lines-2.jsonl") == text(case, "out/log.jsonl")
    assert [json.loads(line)["attempt"] for line in text(case, "lines-2.jsonl").splitlines()].count(2) >= 3
    assert text(case, "out/hook.log").count("collecting") == 2
    train(case, "cat > /dev/null")
    assert text(case, "out/hook.log") == ""  # of the run that was replaced


def test_commands_that_end(case):
    """It is said once, with the reason; the run goes on."""
    said = train(case, "no-such-command-of-mine --flag", "train.max_steps=20")
    assert said.count("log.hook") == 1 and "there is no such command" in said and "no-such-command-of-mine" in said, said
    said = train(case, "head -n 2 > two.jsonl; echo enough; exit 3", "train.max_steps=200", "train.num_epochs=100")
    assert said.count("log.hook") == 1 and "exit status 3" in said and "(enough)" in said and "hook.log" in said, said
    assert text(case, "two.jsonl") == "".join(text(case, "out/log.jsonl").splitlines(keepends=True)[:2])
    said = train(case, "cat > /dev/null; exit 4")
    assert said.count("log.hook") == 1 and "exit status 4" in said, said
    said = train(case, "kill -9 $$", "train.max_steps=20")
    assert said.count("log.hook") == 1 and "SIGKILL" in said, said


def test_command_that_does_not_read(case):
    """Lines are left out, training is not held up, and at the end all that the command has started is ended."""
    said = train(case, "sleep 600 & trap '' TERM; sleep 600", "train.max_steps=1500", "train.num_epochs=10000",
                 "checkpoint.save_steps=100000")
    log = text(case, "out/log.jsonl")
    assert log.count('"event":"train"') == 1500 and len(log) > 3 << 18, len(log)
    assert said.count("are left out") == 1 and "lines were left out" in said, said
    assert "log.hook has not finished, and is ended" in said, said


def test_interrupted(case):
    """Ctrl-C on the terminal reaches the run alone: the command has the last line."""
    process = begin(case, "cat > lines.jsonl", "train.max_steps=1000000", "checkpoint.save_steps=100000")
    wait_until(lambda: text(case, "lines.jsonl").count("\n") > 5, "some lines")
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 75, said
    assert text(case, "lines.jsonl") == text(case, "out/log.jsonl") and '"exit":75' in text(case, "lines.jsonl"), said


def test_killed(case):
    """It dies with ftune, though it does not read, and so does what it has started."""
    process = begin(case, "sleep 600; true", "train.max_steps=1000000")
    wait_until(lambda: hooks_of(case) and '"train"' in text(case, "out/log.jsonl"), "a step")
    process.kill()
    process.communicate()
    wait_until(lambda: not hooks_of(case), "it has ended")


def test_restart(case):
    """Of several ranks the first has it, and when they are started again it is started anew."""
    process = begin(case, "echo $PPID > rank-$FTUNE_ATTEMPT; cat > lines-$FTUNE_ATTEMPT.jsonl", "train.max_steps=1000000",
                    "parallel.data=2", "checkpoint.save_steps=20")
    wait_until(lambda: text(case, "lines-1.jsonl").count('"bytes"') > 1, "checkpoints")
    os.kill(int(text(case, "rank-1")), signal.SIGKILL)
    wait_until(lambda: text(case, "lines-2.jsonl").count("\n") > 5, "lines of the second attempt")
    process.send_signal(signal.SIGTERM)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 75, said
    mine = [line for line in text(case, "out/log.jsonl").splitlines(keepends=True) if json.loads(line)["attempt"] == 2]
    assert json.loads(mine[0])["event"] == "restart", mine[0]
    of_launcher = ("restart", "straggler")
    assert text(case, "lines-2.jsonl") == "".join(line for line in mine if json.loads(line)["event"] not in of_launcher)
    wait_until(lambda: not hooks_of(case), "none is left")


FAKE_WANDB = """
class Config(dict):
    def update(self, values, allow_val_change=False): note("config", values)
class Run:
    config = Config()
    def define_metric(self, name, step_metric=None): note("metric", [name, step_metric])
    def log(self, values): note("log", values)
    def finish(self): note("finish", None)
def init(project=None, name=None, id=None, resume=None):
    note("init", {"name": name, "id": id, "resume": resume})
    return Run()
"""
FAKE_MLFLOW = """
import contextlib
def set_experiment(name): note("experiment", name)
def search_runs(filter_string, output_format): return []
@contextlib.contextmanager
def start_run(run_id=None, run_name=None, tags=None):
    note("init", {"run_id": run_id, "name": run_name, "tags": tags})
    yield
    note("finish", None)
def log_metrics(values, step=None, timestamp=None): note("log", {**values, "step": step})
"""
NOTE = "import json\ndef note(kind, value):\n    with open('notes', 'a') as out: out.write(json.dumps([kind, value]) + '\\n')\n"


def test_examples(case):
    """The scripts of recipes/hooks, with modules that note what they are called with."""
    (case.folder / "fakes").mkdir()
    (case.folder / "fakes" / "wandb.py").write_text(NOTE + FAKE_WANDB)
    (case.folder / "fakes" / "mlflow.py").write_text(NOTE + FAKE_MLFLOW)
    for script in ("wandb_hook.py", "mlflow_hook.py"):
        (case.folder / "notes").unlink(missing_ok=True)
        said = train(case, f"PYTHONPATH=fakes python3 {HOOKS / script}")
        notes = [json.loads(line) for line in text(case, "notes").splitlines()]
        assert "log.hook" not in said and notes, (said, text(case, "out/hook.log"))
        logged = [value for kind, value in notes if kind == "log"]
        ours = [line for line in case.log() if line["event"] == "train"]
        assert [(line["step"], line["loss"]) for line in logged] == [(line["step"], line["loss"]) for line in ours], logged
        (begun,) = [value for kind, value in notes if kind == "init"]
        assert begun["name"] == "out" and notes[-1][0] == "finish", notes


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
