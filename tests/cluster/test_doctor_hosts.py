#!/usr/bin/env python3
"""ftune doctor --hosts: each host is examined, the network between them is measured, what is wrong is named.

`test_doctor_hosts.py --ftune build/release/ftune --work FOLDER`; needs root (third_party/apt-cluster.txt).
"""

import json
import shutil

from cluster_case import cluster_of, main, wait_until
from run_files import ours

HOSTS = ["node1", "node2", "node3"]


def doctor(cluster, case, *words):
    """→ the exit status and what it says, called on node1."""
    done = cluster.run("node1", [case.ftune, "doctor", *words, "--json"], cwd=case.folder.resolve(),
                       environment={"XDG_CACHE_HOME": "/tmp/cache", "HOME": "/root"}, timeout=300)
    answer = json.loads(done.stdout)
    if "error" in answer:
        raise AssertionError(done.stdout)
    assert answer["exit"] == done.returncode, done.stdout
    wait_until(lambda: not [p for node in HOSTS for p in ours(cluster, node)], "all agents have gone")
    return done.returncode, answer


def check(answer, name):
    (found,) = [check for check in answer["checks"] if check["name"] == name]
    return found


def pair(link):
    return {link["from"], link["to"]}


def fit(answer):
    """Exit status 0 is that of a machine where every check of every host is good."""
    return 0 if all(check["ok"] for host in answer["hosts"] for check in host["checks"]) else 1


def test_hosts(case):
    case.recipe("launch: {hosts: [node1, node2, node3]}\n")
    with cluster_of(case, 3) as cluster:
        code, answer = doctor(cluster, case, "recipe.yaml", "train.global_batch_size=6", "--hosts")
        assert code == fit(answer), answer
        assert [host["host"] for host in answer["hosts"]] == HOSTS
        for host in answer["hosts"]:
            assert len(host["checks"]) > 12 and "error" not in host, host
        assert all(check["ok"] for check in answer["checks"]), answer["checks"]
        assert [pair(link) for link in answer["links"]] == [{"node1", "node2"}, {"node1", "node3"}, {"node2", "node3"}]
        for link in answer["links"]:
            assert 0 < link["round_trip_seconds"] < 1 and link["bytes_per_second"] > 1e6 and link["bytes_per_second_back"] > 1e6, link

        cluster.delay("node3", 20)
        code, answer = doctor(cluster, case, "--hosts", "node1,node2,node3")
        assert code == fit(answer) and "node3" in pair(answer["slowest"]), answer["links"]
        assert "node3" in check(answer, "links")["detail"].split(":")[0], answer["checks"]
        for link in answer["links"]:
            assert (link["round_trip_seconds"] >= 0.04) == ("node3" in pair(link)), link
        cluster.delay("node3", 0)

        cluster.rate("node2", "80mbit")  # of what it receives
        code, answer = doctor(cluster, case, "--hosts", "node1,node2,node3")
        slow = {frozenset(pair(link)): (link["bytes_per_second"], link["bytes_per_second_back"]) for link in answer["links"]}
        assert "node2" in pair(answer["slowest"]) and slow[frozenset(["node1", "node2"])][0] < 12e6, answer["links"]
        assert slow[frozenset(["node2", "node3"])][1] < 12e6 < slow[frozenset(["node2", "node3"])][0], answer["links"]
        cluster.rate("node2", None)


def test_what_is_wrong(case):
    """A host that is not there, one that others do not reach, another build: named, and the others are still shown."""
    other = case.folder / "other-ftune"
    shutil.copy(case.ftune, other)
    with open(other, "ab") as program:
        program.write(b"another build")
    case.recipe()
    with cluster_of(case, 3) as cluster:
        cluster.cut("node2", "node3")
        code, answer = doctor(cluster, case, "--hosts", "node1,node2,node3")
        assert code == 1 and check(answer, "hosts")["ok"] and "node2 does not reach node3" in check(answer, "links")["detail"], answer
        assert len([link for link in answer["links"] if "error" not in link]) == 2, answer["links"]
        cluster.mend("node2", "node3")

        cluster.poweroff("node3")
        code, answer = doctor(cluster, case, "recipe.yaml", "--hosts", "node1,node3,node2", "launch.start_timeout=8s")
        assert code == 1 and "node3: " in check(answer, "hosts")["detail"], answer["checks"]
        assert [bool(host["checks"]) for host in answer["hosts"]] == [True, False, True] and "ssh" in answer["hosts"][1]["error"], answer
        assert [pair(link) for link in answer["links"]] == [{"node1", "node2"}]

        code, answer = doctor(cluster, case, "recipe.yaml", "--hosts", "node1,node2", f"launch.program={other.resolve()}")
        assert code == 1 and "another build" in check(answer, "hosts")["detail"] and answer["links"] == [], answer["checks"]


if __name__ == "__main__":
    main(globals(), __doc__)
