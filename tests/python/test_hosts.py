"""Training on several hosts, which network namespaces play, with one or several ranks on each: the curve of one rank on
every kind of mesh; and what the others say, and how they end, when a rank dies or stands still or a host's link is cut.

Exit status 77, which CTest counts as skipped, where there can be no namespaces.
"""

import math
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import netns
from cli_case import edit_json, model_copy, run_tests

PORT = 29500  # every host has its own
LONG = 100000  # steps: more than any test waits for


def losses(case, run):
    return [line["loss"] for line in case.log(run) if line["event"] == "train"]


class Run:
    """The ranks of a run; `layout` has the number of ranks of each host. `masters`: other addresses of rank 0, by host;
    `folders`: other folders, by rank."""

    def __init__(self, case, hosts, layout, *arguments, masters=None, leave_out=(), folders=None, command="train"):
        self.case, self.ranks = case, {}
        homes = [(host, local) for host, count in enumerate(layout) for local in range(count)]
        for rank, (host, local) in enumerate(homes):
            if rank in leave_out:
                continue
            environment = case.environment({
                "RANK": str(rank), "WORLD_SIZE": str(len(homes)), "LOCAL_RANK": str(local),
                "LOCAL_WORLD_SIZE": str(layout[host]), "MASTER_ADDR": (masters or {}).get(host, hosts.address(0)),
                "MASTER_PORT": str(PORT)})
            self.ranks[rank] = hosts.start(
                host, [case.ftune, command, *map(str, arguments)], cwd=(folders or {}).get(rank, case.folder), text=True, env=environment,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def wait_for_steps(self, run="out", count=2, seconds=60):
        log, end = self.case.folder / run / "log.jsonl", time.monotonic() + seconds
        while not log.exists() or log.read_text().count('"train"') < count:
            assert time.monotonic() < end, f"no {count} steps after {seconds} s"
            for rank, process in self.ranks.items():
                assert process.poll() is None, f"rank {rank} has ended: {process.communicate()}"
            time.sleep(0.02)

    def end(self, codes, says=(), seconds=60, but=()):
        """Waits for the end of all ranks `but` some; checks their exit status, and what each says."""
        limit = time.monotonic() + seconds
        ends = {}
        for rank, process in self.ranks.items():
            if rank not in but:
                out, err = process.communicate(timeout=max(1, limit - time.monotonic()))
                ends[rank] = (process.returncode, out + err)
        for rank, (code, said) in ends.items():
            assert code in codes, f"rank {rank}: exit {code}, expected {codes}: {ends}"
            for part in says:
                assert part in said, f"rank {rank}: '{part}' is not said: {ends}"
        left = [name for name in os.listdir("/dev/shm") if "ftune" in name]
        assert not left, left


def check_curve(case, hosts, layout, recipe, name, *arguments, masters=None):
    """The losses of a run are those of one rank."""
    if not (case.folder / "one" / "log.jsonl").exists():
        one = case.run("train", recipe, "output_dir=one")
        assert one.returncode == 0, one.stderr
    Run(case, hosts, layout, recipe, f"output_dir={name}", *arguments, masters=masters).end([0])
    expected = losses(case, "one")
    ours = losses(case, name)
    assert len(ours) == len(expected) == 3, (name, ours)
    for a, b in zip(ours, expected, strict=True):
        assert math.isclose(a, b, rel_tol=1e-5), (name, ours, expected)


def mesh_recipe(case):
    """Of a model whose heads two ranks can share, with batches for four."""
    model = model_copy(case)
    edit_json(model / "config.json", lambda c: c.update(num_attention_heads=6, num_key_value_heads=2, head_dim=4))
    name = case.recipe(model="model", adapter=False)
    text = (case.folder / name).read_text()
    text = text.replace("global_batch_size: 2", "global_batch_size: 12").replace("sequence_len: 128", "sequence_len: 128, packing: false")
    (case.folder / name).write_text(text)
    return name


def test_curves(case):
    recipe = mesh_recipe(case)
    shards = ["parallel.persistence_threshold=0"]
    with netns.Hosts(2) as hosts:
        for layout, name, arguments in (
                ([1, 1], "data", ["parallel.data=2"]),
                ([1, 1], "tensor", ["parallel.tensor=2"]),
                ([1, 1], "zero-3", ["parallel.data=2", "parallel.zero=3", *shards]),
                ([2, 1], "uneven", ["parallel.data=3", "parallel.zero=1"]),
                ([2, 1], "uneven-3", ["parallel.data=3", "parallel.zero=3", *shards]),
                ([2, 2], "even-1", ["parallel.data=4", "parallel.zero=1"]),
                ([2, 2], "even-2", ["parallel.data=4", "parallel.zero=2"]),
                ([2, 2], "even-3", ["parallel.data=4", "parallel.zero=3", *shards]),
                ([2, 2], "mesh", ["parallel.tensor=2", "parallel.data=2", "parallel.sequence_parallel=true"]),
                *(([2, 2], f"hybrid-{zero}", ["parallel.data=4", "parallel.shard_size=2", f"parallel.zero={zero}", *shards])
                  for zero in (1, 2, 3))):
            begin = time.monotonic()
            check_curve(case, hosts, layout, recipe, name, *arguments)
            print(f"{name}: {time.monotonic() - begin:.1f} s", flush=True)


def check_failure(case, layout, arguments, fail, codes, says, seconds, but=()):
    """Something happens to a run that trains: all other ranks end, in time, and say why."""
    recipe = case.recipe("launch: {heartbeat_timeout: 2s, step_timeout: 4s}\n")
    arguments = [f"train.max_steps={LONG}", f"train.num_epochs={LONG}", "data.packing=false", *arguments]
    shutil.rmtree(case.folder / "out", ignore_errors=True)
    with netns.Hosts(len(layout)) as hosts:
        run = Run(case, hosts, layout, recipe, "output_dir=out", *arguments)
        run.wait_for_steps()
        fail(hosts, run)
        begin = time.monotonic()
        run.end(codes, says, seconds, but)
        print(f"{layout}: {time.monotonic() - begin:.2f} s", flush=True)


def stops(victim, with_signal):
    return lambda hosts, run: os.kill(run.ranks[victim].pid, with_signal)


def data_ranks(layout):
    return [f"parallel.data={sum(layout)}", "train.global_batch_size=12"]


def test_killed(case):
    """A rank that is killed ends the others at once (on a busy machine, within seconds), which name it; also the one that
    has the store."""
    for layout, victim in (([1, 1], 1), ([1, 1], 0), ([2, 2], 3), ([2, 2], 1), ([2, 2], 0), ([2, 1], 2), ([2, 1], 0)):
        check_failure(case, layout, data_ranks(layout), stops(victim, signal.SIGKILL), [5], [f"error: rank {victim}: "],
                      5, but=[victim])


def test_stopped(case):
    """One that stands still, after the heartbeat's time."""
    for layout, victim in (([1, 1], 1), ([2, 2], 0), ([2, 2], 3), ([2, 1], 2)):
        check_failure(case, layout, data_ranks(layout), stops(victim, signal.SIGSTOP), [5], [f"error: rank {victim}: "],
                      6, but=[victim])


def test_cut(case):
    """A host that cannot be reached, likewise; each side blames the other."""
    for layout, victim, blamed in (([1, 1], 1, "rank "), ([2, 1], 1, "rank ")):
        check_failure(case, layout, data_ranks(layout), lambda hosts, run: hosts.cut(victim), [5], [f"error: {blamed}"], 8)


def test_missing(case):
    """A rank that never says that it is there is named."""
    with netns.Hosts(2) as hosts:
        for missing, says in ((1, "error: rank 1: it did not come"), (2, "error: rank 2: it did not come"),
                              (0, "nobody answered")):
            recipe = case.recipe("launch: {start_timeout: 1s}\n")
            Run(case, hosts, [2, 1], recipe, "output_dir=none", *data_ranks([2, 1]), leave_out=[missing]).end([6], [says])


def test_first_cause(case):
    """An error of one rank is said by all, whichever it is."""
    elsewhere = case.folder / "elsewhere"
    elsewhere.mkdir()
    recipe = case.recipe()
    shutil.copy(case.folder / recipe, elsewhere)
    with netns.Hosts(2) as hosts:
        for layout, lost in (([1, 1], 0), ([1, 1], 1), ([2, 1], 2), ([2, 2], 0)):
            run = Run(case, hosts, layout, recipe, "output_dir=none", "data.packing=false", *data_ranks(layout), folders={lost: elsewhere})
            run.end([4], ["error: ", "chats.jsonl"])


if __name__ == "__main__":
    if missing := netns.unavailable():
        print(f"skipped: {missing}")
        sys.exit(77)
    sys.exit(run_tests(globals(), __doc__))
