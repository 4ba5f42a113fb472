#!/usr/bin/env python3
"""What becomes of a run on three hosts, over SSH and without a shared disk, when something fails: for each fault whether the
first cause is named, no process is left anywhere, and the weights at the end are those of a run that nothing has disturbed.

`ssh_faults.py --ftune build/release/ftune --work FOLDER [--times 5] [--seed N] [FAULT …]` prints a table: seconds until the
run was started again (the failure has been seen, all ranks have ended, and 1 s of waiting before a restart) and until it
had trained its next step, the least and the most of all times.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "python"))

from cli_case import Case
from cluster import Cluster, unavailable
from cluster_case import wait_until

HOSTS = ["node1", "node2", "node3"]
OUT = "/root/out"  # a folder of node1 alone


class HostRun:
    """A run that is called on node1, over all of its hosts."""

    def __init__(self, cluster, case, *words, environment=None):
        self.cluster, self.case = cluster, case
        folder = case.folder.resolve()
        self.said = folder / "said.txt"
        with open(self.said, "w") as said:
            self.process = cluster.popen(
                "node1", [case.ftune, *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                environment={"XDG_CACHE_HOME": "/root/cache", "HOME": "/root", **(environment or {})})

    def log(self):
        path = self.cluster.path("node1", f"{OUT}/log.jsonl")
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]

    def steps(self, attempt=None):
        return [line["step"] for line in self.log() if line["event"] == "train" and attempt in (None, line["attempt"])]

    def await_step(self, step):
        def trained():
            assert self.process.poll() is None, f"it has ended: {self.said.read_text()}"
            return (self.steps() or [0])[-1] >= step
        wait_until(trained, f"step {step}", 120)

    def end(self, code, seconds=180):
        """Waits for its end; → what it said."""
        assert self.process.wait(seconds) == code, (self.process.returncode, self.said.read_text()[-3000:])
        return self.said.read_text()


def ours(cluster, node):
    """Processes of ftune on a host: the launcher, agents and ranks."""
    if not cluster.is_on(node):
        return []
    return [p for p in cluster.processes(node) if "ftune" in p.command.split(" ")[0] or " agent " in f"{p.command} "]


def none_left(cluster, seconds=60):
    """Nothing of ftune runs on any host any more."""
    def left():
        return [p for node in HOSTS for p in ours(cluster, node)]
    wait_until(lambda: not left(), "all have ended", seconds)


def weights(cluster):
    return cluster.path("node1", f"{OUT}/model/model.safetensors").read_bytes()


def some_rank(cluster, node, draw):
    return draw.choice([p for p in ours(cluster, node) if "--attempt=" in p.command])


def kill_rank(number, node="node2"):
    def fault(cluster, draw):
        os.kill(some_rank(cluster, node, draw).pid, number)
    return fault


def kill_agent(number):
    def fault(cluster, draw):
        os.kill(next(p for p in ours(cluster, "node2") if " agent " in p.command).pid, number)
    return fault


def then(first, seconds, second):
    """A fault that is over after a while."""
    def fault(cluster, draw):
        first(cluster)
        end = time.monotonic() + seconds
        fault.after = lambda: (time.sleep(max(0, end - time.monotonic())), second(cluster))
    fault.after = None
    return fault


# Each with what must be said of its cause, one of them.
FAULTS = {
    "a rank is killed (SIGKILL)": (kill_rank(signal.SIGKILL), ["was killed by signal 9 (SIGKILL)"]),
    "a rank crashes (SIGSEGV)": (kill_rank(signal.SIGSEGV), ["was killed by signal 11 (SIGSEGV)"]),
    "a rank is stopped (SIGSTOP)": (kill_rank(signal.SIGSTOP), ["nothing was heard of its process"]),
    "a rank of the launcher's host is killed": (kill_rank(signal.SIGKILL, "node1"), ["was killed by signal 9 (SIGKILL)"]),
    "an agent is killed": (kill_agent(signal.SIGKILL), ["host node2 is lost", "its host is lost"]),
    "connections are reset": (lambda cluster, draw: cluster.reset("node2"), ["host node2 is lost", "rank "]),
    "a host's cable is out for 12 s": (then(lambda c: c.link("node2", False), 12, lambda c: c.link("node2", True)),
                                       ["node2", "rank 2", "rank 3"]),
    "nothing comes from a host for 12 s": (then(lambda c: c.isolate("node2", receives=True), 12, lambda c: c.rejoin("node2")),
                                           ["node2", "rank 2", "rank 3"]),
    "nothing gets to a host for 12 s": (then(lambda c: c.isolate("node2", sends=True), 12, lambda c: c.rejoin("node2")),
                                        ["node2", "rank "]),
    "a host stands still for 12 s": (then(lambda c: c.freeze("node2"), 12, lambda c: c.thaw("node2")),
                                     ["node2", "rank 2", "rank 3"]),
    "a host is switched off and on": (then(lambda c: c.poweroff("node2"), 6, lambda c: c.poweron("node2")),
                                      ["node2", "rank 2", "rank 3"]),
}
# These end the launcher itself: the run goes on when it is called again.
LAUNCHER = {
    "the launcher is killed (SIGKILL)": (signal.SIGKILL, -signal.SIGKILL),
    "the launcher is told to end (SIGTERM)": (signal.SIGTERM, 75),
}


class Faults:
    def __init__(self, case, draw, steps=600):
        self.case, self.draw, self.steps = case, draw, steps
        case.recipe("launch: {hosts: [node1, node2, node3], ranks_per_host: 2, heartbeat_timeout: 3s}\n"
                    f"checkpoint: {{save_steps: {steps // 15}}}\n", adapter=False)
        path = case.folder / "recipe.yaml"
        text = path.read_text().replace("global_batch_size: 2, max_steps: 3, num_epochs: 3",
                                        f"global_batch_size: 12, max_steps: {steps}, num_epochs: 100000")
        path.write_text(text.replace("sequence_len: 128", "sequence_len: 128, packing: false"))
        self.times = {}

    def cluster(self):
        return Cluster(len(HOSTS), self.case.folder.with_name("faults-cluster"),
                       tools=Path(self.case.ftune).parent / "tests", share=[self.case.folder.resolve()])

    def start(self, cluster, *words):
        if "--resume" not in words:
            cluster.run("node1", ["rm", "-rf", OUT], check=True)
        return HostRun(cluster, self.case, "train", "recipe.yaml", f"output_dir={OUT}", *words)

    def undisturbed(self, cluster):
        self.start(cluster).end(0)
        none_left(cluster)
        return weights(cluster)

    def fail(self, cluster, name, expected):
        fault, causes = FAULTS[name]
        run = self.start(cluster)
        step = self.draw.randrange(5, self.steps // 3)
        run.await_step(step)
        begun = time.time()
        fault(cluster, self.draw)
        if getattr(fault, "after", None):
            fault.after()
        said = run.end(0, 300)
        none_left(cluster)
        restart = next(line for line in run.log() if line["event"] == "restart")
        assert any(cause in restart["cause"] for cause in causes), (name, restart, said[-3000:])
        assert weights(cluster) == expected, f"{name}: other weights than those of an undisturbed run"
        trained = next(line for line in run.log() if line["event"] == "train" and line["attempt"] == restart["attempt"])
        self.times.setdefault(name, []).append((restart["time"] - begun, trained["time"] - begun))
        return f"in step {step}: {restart['cause'][:160]}"

    def end_launcher(self, cluster, name, expected):
        number, code = LAUNCHER[name]
        run = self.start(cluster)
        step = self.draw.randrange(5, self.steps // 3)
        run.await_step(step)
        begun = time.time()
        run.process.send_signal(number)
        run.process.wait(60)
        assert run.process.returncode == code, (name, run.process.returncode, run.said.read_text()[-2000:])
        none_left(cluster)
        gone = time.time() - begun
        again = self.start(cluster, "--resume")
        again.end(0)
        assert weights(cluster) == expected, f"{name}: other weights than those of an undisturbed run"
        self.times.setdefault(name, []).append((gone, None))
        return f"in step {step}"

    def one(self, cluster, name, expected):
        return (self.end_launcher if name in LAUNCHER else self.fail)(cluster, name, expected)

    def table(self):
        def span(values):
            values = [value for value in values if value is not None]
            return f"{min(values):.1f} to {max(values):.1f}" if values else ""
        rows = ["| fault | times | all ended, started again (s) | next step (s) |", "|---|---|---|---|"]
        for name, times in self.times.items():
            rows.append(f"| {name} | {len(times)} | {span([t[0] for t in times])} | {span([t[1] for t in times])} |")
        return "\n".join(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ftune", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    parser.add_argument("names", nargs="*", metavar="FAULT", help="; ".join([*FAULTS, *LAUNCHER]))
    arguments = parser.parse_args()
    if missing := unavailable():
        print(f"skipped: {missing}")
        return 77
    print(f"seed {arguments.seed}", flush=True)
    draw = random.Random(arguments.seed)
    faults = Faults(Case(str(arguments.ftune.resolve()), arguments.work / "faults"), draw)
    with faults.cluster() as cluster:
        expected = faults.undisturbed(cluster)
        for time_number in range(arguments.times):
            for name in arguments.names or [*FAULTS, *LAUNCHER]:
                print(f"{time_number + 1}: {name}: {faults.one(cluster, name, expected)}", flush=True)
    print(faults.table())
    return 0


if __name__ == "__main__":
    sys.exit(main())
