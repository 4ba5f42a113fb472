"""What ftune makes of what its ranks show: a rank that stands still, one that is slow, and where one was that failed. Ranks
are made to stand still, or slow, by a tracer that stops the one thread that trains: all else in the process goes on."""

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from cli_case import random_model, run_tests
from test_ranks import LONG, Run, losses

PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_CONT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 7, 17, 0x40000000
PLACE = r"it was in step \d+(, [a-z ]+)?( of microbatch \d+)?"


class Tracer:
    """Of a process's main thread: the calls must be made by one thread."""

    def __init__(self, pid):
        self.pid, self.libc = pid, ctypes.CDLL(None, use_errno=True)
        self.libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        self.libc.ptrace.restype = ctypes.c_long
        self.ask(PTRACE_SEIZE)

    def ask(self, request):
        assert self.libc.ptrace(request, self.pid, None, None) == 0, os.strerror(ctypes.get_errno())

    def stop(self):
        self.ask(PTRACE_INTERRUPT)
        os.waitpid(self.pid, WALL)

    def go_on(self):
        self.ask(PTRACE_CONT)

    def stop_for_good(self):
        """Its parent hears of its end when the tracer has."""
        self.stop()
        threading.Thread(target=os.waitpid, args=(self.pid, WALL), daemon=True).start()

    def release(self):
        self.stop()
        self.ask(PTRACE_DETACH)


def slow_recipe(case, more="", threads=1):
    """Of a model whose ranks spend their time computing."""
    shutil.rmtree(case.folder / "model", ignore_errors=True)
    random_model(case.folder / "model", hidden_size=384, intermediate_size=1024, num_hidden_layers=4,
                 num_attention_heads=6, num_key_value_heads=2, head_dim=64)
    return case.recipe(f"launch: {{threads: {threads}}}\n{more}", model="model", adapter=False), \
        "parallel.data=2", "train.global_batch_size=4", f"train.max_steps={LONG}", f"train.num_epochs={LONG}"


def check_standstill(case, victim):
    """→ whether the ranks were not by chance all in one call, which tells nothing."""
    run = Run(case, *slow_recipe(case), "launch.hang_timeout=3s", "--force")
    run.wait_for_steps()
    Tracer(run.rank(victim)).stop_for_good()
    _, err = run.end(6)
    table = re.search(r"no rank has shown anything new for 5s:\n((?:  ranks? .*\n)+)", err)
    assert table, err
    if "error: launch: no rank has shown" in err:
        return False
    error = re.search(rf"error: rank {victim}: it stands still and the others wait for it: nothing new for 5s; {PLACE}.*; its log is \S+"
                      rf"/rank-{victim}.log; raise launch.hang_timeout", err)
    assert error, err
    assert re.search(rf"  rank {1 - victim}: in step \d+, .*\(.*\) #\d+ of ranks 0, 1, for ", table.group(1)), err
    for rank in (0, 1):
        assert "it was in step" in (case.folder / f"out/ranks/attempt-1/rank-{rank}.log").read_text()
    return True


def test_standstill(case):
    """A rank whose thread that trains does nothing any more, though its process gives signs of life."""
    for victim in (0, 1):
        assert any(check_standstill(case, victim) for _ in range(5))


def test_standstill_is_restarted(case):
    """After a standstill the run goes on, and comes to what it would have come to."""
    arguments = [case.recipe(adapter=False), "parallel.data=2", "train.max_steps=5000", f"train.num_epochs={LONG}",
                 "checkpoint.save_steps=50"]
    Run(case, *arguments).end(0)
    expected = losses(case)[-1]
    shutil.rmtree(case.folder / "out")
    run = Run(case, *arguments, "launch.hang_timeout=2s", "launch.max_restarts=1")
    run.wait_for(lambda: any(line["event"] == "save" for line in case.log()) if (case.folder / "out/log.jsonl").exists() else False,
                 "save")
    Tracer(run.rank(1)).stop_for_good()
    run.end(0, says=["restart 1 of 1: error: "], seconds=120)
    restarts = [line for line in case.log() if line["event"] == "restart"]
    assert len(restarts) == 1 and "new for 4s" in restarts[0]["cause"], restarts
    assert losses(case)[-1] == expected


def test_stopped_is_no_standstill(case):
    """A run that somebody stops goes on later, however late that is."""
    run = Run(case, *slow_recipe(case), "launch.hang_timeout=1s")
    run.wait_for_steps()
    os.kill(run.process.pid, signal.SIGTSTP)
    time.sleep(3)
    steps = run.steps()
    os.kill(run.process.pid, signal.SIGCONT)
    run.wait_for_steps(steps + 2)
    os.kill(run.process.pid, signal.SIGTERM)
    _, err = run.end(75)
    assert "anything new" not in err, err


def slow_down(pid, until):
    """Lets a process's main thread run a third of the time."""
    tracer = Tracer(pid)
    while not until():
        tracer.stop()
        time.sleep(0.06)
        tracer.go_on()
        time.sleep(0.03)
    tracer.release()


def test_straggler(case):
    """A rank that takes longer to compute is named, once, and logged."""
    run = Run(case, *slow_recipe(case), "launch.step_timeout=100s")
    run.wait_for_steps()
    log = case.folder / "out" / "log.jsonl"

    def found():
        return [line for line in map(json.loads, log.read_text().splitlines()) if line["event"] == "straggler"]

    limit = time.monotonic() + 100
    slow_down(run.rank(1), lambda: found() or time.monotonic() > limit)
    steps = run.steps()
    run.wait_for_steps(steps + 3)
    os.kill(run.process.pid, signal.SIGTERM)
    _, err = run.end(75)
    events = found()
    assert len(events) == 1, (events, err)
    event = events[0]
    assert event["rank"] == 1 and event["host"] == os.uname().nodename and event["attempt"] == 1 and event["step"] > 0, event
    assert event["factor"] > 1.5 and event["compute_seconds"] > 1.5 * event["median_seconds"] > 0, event
    assert err.count("rank 1 is slow: ") == 1 and "times the median" in err and "rank 0 is slow" not in err, err
    # No line of rank 0's was torn.
    assert all(json.loads(line) for line in log.read_text().splitlines())


def computed(pid):
    """→ the processor time that a process has taken."""
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[11:13]))


def wait_until_idle(run, pid):
    def is_idle():
        before = computed(pid)
        time.sleep(0.5)
        return computed(pid) <= before + 1
    run.wait_for(is_idle, "wait for the other rank")


def test_first_cause(case):
    """The error says where the rank was that failed, and what is shown beside it for what the others waited."""
    run = Run(case, *slow_recipe(case))
    run.wait_for_steps()
    Tracer(run.rank(1)).stop_for_good()
    wait_until_idle(run, run.rank(0))
    os.kill(run.rank(1), signal.SIGKILL)
    _, err = run.end(5)
    assert re.search(rf"error: rank 1: it was killed by signal 9 \(SIGKILL\); {PLACE}.*; its log is \S+rank-1.log", err), err
    waits = re.search(r"others had to end while they waited:\n  rank 0: in step \d+, .*#\d+ of ranks 0, 1, for", err)
    assert waits, err
    assert "it was in step" in (case.folder / "out/ranks/attempt-1/rank-0.log").read_text()
    # Before the first step too.
    run = Run(case, *slow_recipe(case)[:1], "parallel.data=2", "launch.hang_timeout=1s", "--force")
    maps = Path(f"/proc/{run.rank(1)}/maps")
    run.wait_for(lambda: "model.safetensors" in maps.read_text(), "model")
    os.kill(run.rank(1), signal.SIGKILL)
    run.end(5, says=["error: rank 1: it was killed by signal 9 (SIGKILL); it was before the first step ("])


def limited_group(size):
    """→ the folder of a control group, of version 1 or 2, in which processes have so much memory; None: there can be none."""
    own = [line.split(":", 2) for line in Path("/proc/self/cgroup").read_text().splitlines()]
    for _, controllers, path in own:
        if controllers not in ("", "memory"):
            continue
        root, limit = ("/sys/fs/cgroup/memory", "memory.limit_in_bytes") if controllers else ("/sys/fs/cgroup", "memory.max")
        group = Path(f"{root}{path}/ftune-test-{os.getpid()}")
        with contextlib.suppress(OSError):
            group.mkdir()
            if (group / limit).exists():
                (group / limit).write_text(str(size))
                return group
            group.rmdir()
    return None


def test_out_of_memory(case):
    """A rank that the kernel kills because memory runs out is called by that name."""
    arguments = slow_recipe(case)
    group = limited_group(150 << 20)
    if group is None:
        return print("skipped: no control group can be made here")
    done = subprocess.run(["sh", "-c", 'echo $$ > "$0"; exec "$@"', group / "cgroup.procs", case.ftune, "train", *arguments, "--force",
                           "output_dir=out", "launch.max_restarts=0"],
                          cwd=case.folder, text=True, capture_output=True, timeout=120, env=case.environment())
    group.rmdir()
    assert done.returncode == 5, done
    assert re.search(r"error: rank \d: it was killed by signal 9 \(SIGKILL\), as memory ran out", done.stderr), done.stderr
    assert "lower train.micro_batch_size" in done.stderr, done.stderr


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
