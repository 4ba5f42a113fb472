"""What a run on a cluster writes, and that nothing else is left of it."""

import json
from pathlib import Path

from cluster_case import wait_until

# What ranks have when one of them has failed: to say what they know of it and, after SIGTERM, to end (parallel/launch/supervisor.h).
UNTIL_TERM, UNTIL_KILL = 2, 5
# For what is not ftune's to hasten, as the ends of ssh and sshd are, and for a machine that has other work.
SLACK = 15


def seconds_to_end(heartbeat_timeout):
    """Until nothing is left of ranks whose launcher is gone or out of reach: their agent takes it for lost after
    launch.heartbeat_timeout (if it is stopped, the kernel kills it, and them, then); they have the rest to end."""
    return heartbeat_timeout + UNTIL_TERM + UNTIL_KILL + SLACK


class RunFiles:
    def __init__(self, folder):
        self.folder = Path(folder)

    def log(self):
        path = self.folder / "log.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]

    def steps(self, attempt=None):
        return [line["step"] for line in self.log() if line["event"] == "train" and attempt in (None, line["attempt"])]

    def rank_logs(self, attempt):
        return list((self.folder / "ranks" / f"attempt-{attempt}").iterdir())

    def checkpoints(self):
        folder = self.folder / "checkpoints"
        return sorted(entry.name for entry in folder.iterdir()) if folder.exists() else []

    def weights(self):
        return (self.folder / "model" / "model.safetensors").read_bytes()

    def await_step(self, step, check_alive):
        """`check_alive` raises when nothing more is to come."""
        def trained():
            check_alive()
            return (self.steps() or [0])[-1] >= step
        wait_until(trained, f"step {step}", 240)


def ours(cluster, node):
    """Processes of ftune on a host: the launcher, agents and ranks."""
    if not cluster.is_on(node):
        return []
    return [p for p in cluster.processes(node) if "ftune" in p.command.split(" ")[0] or " agent " in f"{p.command} "]


def agent_on(cluster, node):
    return next(p for p in ours(cluster, node) if " agent " in p.command)


def ranks_on(cluster, node):
    return [p for p in ours(cluster, node) if "--attempt=" in p.command]


def rank_of(process):
    """Its number."""
    entries = Path(f"/proc/{process.pid}/environ").read_text().split("\0")
    variables = dict(entry.split("=", 1) for entry in entries if entry)
    return int(variables.get("RANK") or variables["SLURM_PROCID"])


def all_ranks(cluster):
    return [process for node in cluster.nodes if cluster.is_on(node) for process in ranks_on(cluster, node)]


def are_gone(cluster, ranks, seconds):
    """Of a run that goes on with others."""
    _wait_for_none(lambda: [process for process in all_ranks(cluster) if process in ranks], seconds)


def none_left(cluster, seconds=SLACK):
    """Nothing of a run is left on any host: no process but a node's own daemons. A launcher that ends by itself has seen the
    ends of all that it can reach, and of what it had lost has waited for as long as that may take."""
    _wait_for_none(lambda: [p for node in cluster.nodes if cluster.is_on(node) for p in cluster.processes(node)], seconds)


def _wait_for_none(left, seconds):
    try:
        wait_until(lambda: not left(), "all have ended", seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}: {left()}") from error
