"""What a run on a cluster writes, and that nothing else is left of it."""

import json
from pathlib import Path

from cluster_case import wait_until


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


def none_left(cluster, seconds=60):
    """Nothing of a run is left on any host: no process but a node's own daemons."""
    def left():
        return [p for node in cluster.nodes if cluster.is_on(node) for p in cluster.processes(node)]
    try:
        wait_until(lambda: not left(), "all have ended", seconds)
    except AssertionError as error:
        raise AssertionError(f"{error}: {left()}") from error
