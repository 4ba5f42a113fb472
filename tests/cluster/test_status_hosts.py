#!/usr/bin/env python3
"""A run on several hosts as it is seen on the one that leads it, from one that sees its folder, and from one that only reaches its port."""

import json

from cluster_case import cluster_of, main, wait_until
from host_run import HostRun
from run_files import none_left

TWO = ["launch.hosts=[node1, node2]", "launch.ranks_per_host=2", "launch.heartbeat_timeout=10s"]


class Watched(HostRun):
    """A run that node1 leads. Its folder is on a disk that all nodes have."""

    def __init__(self, cluster, case, *words):
        case.recipe("checkpoint: {save_steps: 10}\n", adapter=False)
        path = case.folder / "recipe.yaml"
        text = path.read_text().replace("global_batch_size: 2, max_steps: 3, num_epochs: 3",
                                        "global_batch_size: 12, max_steps: 100000, num_epochs: 100000")
        path.write_text(text.replace("sequence_len: 128", "sequence_len: 128, packing: false"))
        self.out = case.folder.resolve() / "out"
        super().__init__(cluster, case, "train", "recipe.yaml", "--force", *TWO, *words, out=self.out)
        self.await_state("running")
        wait_until(lambda: self.status("node1")["checkpoint"], "a checkpoint")

    def call(self, node, *words):
        done = self.cluster.run(node, [self.case.ftune, *words], environment={"HOME": "/root"})
        assert done.returncode == 0, (node, words, done.stderr)
        return done.stdout

    def status(self, node, of=None):
        return json.loads(self.call(node, "status", of or str(self.out), "--json"))

    def await_state(self, *states, node="node1", attempt=0):
        def reached():
            assert "gone" in states or self.process.poll() is None, f"it has ended: {self.said.read_text()}"
            if not (self.out / "status.json").exists():
                return None
            seen = self.status(node)
            return seen if seen["state"] in states and seen["attempt"] >= attempt else None
        return wait_until(reached, " or ".join(states), 120)


def test_views(case):
    """Ranks of all hosts are in the status, which other hosts see as it is; a rank's log is on the host that leads."""
    with cluster_of(case, 3) as cluster:
        run = Watched(cluster, case, "log.metrics_port=0", "log.metrics_address=0.0.0.0")
        seen = run.status("node1")
        assert seen["launcher"]["host"] == "node1" and seen["restarts"] == 0, seen
        assert [(host["name"], host["ranks"], host["state"]) for host in seen["hosts"]] == [
            ("node1", [0, 1], "up"), ("node2", [2, 3], "up")], seen
        assert [rank["host"] for rank in seen["ranks"]] == ["node1", "node1", "node2", "node2"], seen
        for rank in seen["ranks"]:
            command = cluster.run(rank["host"], ["cat", f"/proc/{rank['pid']}/environ"], check=True).stdout.split("\0")
            assert f"RANK={rank['rank']}" in command, (rank, command)
        for node in ("node2", "node3"):
            assert run.status(node)["launcher"] == seen["launcher"] and run.status(node)["state"] == "running", node
        # By the network alone.
        server = f"node1:{seen['launcher']['metrics'].rsplit(':', 1)[1]}"
        step = run.status("node3", server)["step"]
        wait_until(lambda: run.status("node3", server)["step"] > step, "more steps over the network")
        assert "node2" in run.call("node3", "status", server), run.call("node3", "status", server)
        text = cluster.run("node3", ["python3", "-c", f"import urllib.request as u; print(u.urlopen('http://{server}/metrics').read().decode())"],
                           check=True).stdout
        assert 'ftune_rank_up{rank="3",host="node2"} 1' in text and 'ftune_host_up{host="node2"} 1' in text, text
        assert run.call("node3", "logs", str(run.out), "--rank", "3", "--attempt", "1") == (run.out / "ranks/attempt-1/rank-3.log").read_text()
        # From a host that cannot signal it.
        said = run.call("node3", "stop", str(run.out), "--save")
        assert "stopped after step" in said, said
        run.end(75)
        none_left(cluster)
        last = run.status("node2")
        assert last["state"] == "stopped" and last["checkpoint"]["step"] == last["step"], last


def test_stop_at_once(case):
    """On all hosts, from a host that is none of the run's."""
    with cluster_of(case, 3) as cluster:
        run = Watched(cluster, case)
        run.call("node3", "stop", str(run.out))
        run.end(143)
        none_left(cluster)
        assert run.status("node3")["state"] == "stopped"


def test_lost_host(case):
    """A host that is lost is named, and one without ranks; and a launcher that is killed is missed from everywhere."""
    with cluster_of(case, 3) as cluster:
        run = Watched(cluster, case, "launch.min_hosts=1")
        cluster.poweroff("node2")
        lost = wait_until(lambda: next((host["state"] for host in run.status("node1")["hosts"]
                                        if host["name"] == "node2" and host["state"] != "up"), None), "node2 is missed")
        assert lost.startswith("lost: ") or lost == "without ranks", lost
        seen = run.await_state("running", attempt=2)
        assert [(host["name"], host["ranks"], host["state"]) for host in seen["hosts"]] == [
            ("node1", [0, 1], "up"), ("node2", [], "without ranks")], seen
        assert seen["restarts"] == 1 and len(seen["ranks"]) == 2, seen
        run.process.kill()
        run.process.wait(60)
        assert run.status("node1")["state"] == "gone"
        run.await_state("gone", node="node3")


if __name__ == "__main__":
    main(globals(), __doc__)
