#!/usr/bin/env python3
"""ftune called on a host that has no ranks and shares no disk with those that do: the run's folder there has all that the first
rank writes, as if that rank were there, whatever fails on the way.
"""

import json
import os
import signal
from pathlib import Path

from cluster import Cluster
from cluster_case import cli_case, main, wait_until
from host_run import OUT, HostRun
from run_files import agent_on, none_left, ranks_on, seconds_to_end

STEPS = 240
HEARTBEAT_TIMEOUT = 5


def start(cluster, case, *words, node="node1"):
    """A run that is called on a node, for two ranks on each of two others."""
    return HostRun(cluster, case, *words, "launch.hosts=[node2, node3]", node=node)


def recipe(case, steps=STEPS, text="", model=None):
    case.recipe(f"launch: {{ranks_per_host: 2, heartbeat_timeout: {HEARTBEAT_TIMEOUT}s}}\n" + text, adapter=False,
                **({"model": model} if model else {}))
    path = case.folder / "recipe.yaml"
    path.write_text(path.read_text().replace("global_batch_size: 2, max_steps: 3, num_epochs: 3",
                                             f"global_batch_size: 12, max_steps: {steps}, num_epochs: 100000")
                    .replace("sequence_len: 128", "sequence_len: 128, packing: false"))


def three(case):
    return Cluster(3, case.folder.with_name(f"{case.folder.name}-cluster"), tools=Path(case.ftune).parent / "tests",
                   share=[case.folder.resolve(), Path(case.ftune).parent])


def files(folder):
    """What lies in a folder: of each file its bytes."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def undisturbed(cluster, case):
    """The weights of a run that is called where the first rank is."""
    run = start(cluster, case, "train", "recipe.yaml", node="node2")
    run.end(0)
    weights = files(run.folder / "model")
    cluster.run("node2", ["rm", "-rf", OUT], check=True)
    return weights


def verified(cluster, case, run, count):
    """Its checkpoints are whole, and no trace of what was not is left."""
    done = cluster.run(run.node, [case.ftune, "checkpoint", "verify", OUT, "--json"], cwd=case.folder.resolve())
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["checkpoints"]) == count, done.stdout
    hidden = [path for path in run.folder.rglob(".*")]
    assert not hidden, hidden


def test_whole(case):
    """All that there would be if it were called where the first rank is; nothing is left elsewhere but what ranks cached."""
    recipe(case, text="checkpoint: {save_steps: 40, keep_last: 2}\n")
    with three(case) as cluster:
        expected = undisturbed(cluster, case)
        run = start(cluster, case, "train", "recipe.yaml", "--json")
        answer = json.loads(run.end(0).splitlines()[-1])
        assert answer["run"] == OUT and answer["steps"] == STEPS, answer
        assert files(run.folder / "model") == expected
        assert run.checkpoints() == ["step-00000200", "step-00000240"], run.checkpoints()
        verified(cluster, case, run, 2)
        assert run.steps() == list(range(1, STEPS + 1)), run.steps()
        assert run.log()[-1]["event"] == "end" and run.log()[-1]["run"] == OUT
        assert f"output_dir: {OUT}" in (run.folder / "recipe.yaml").read_text()
        assert {"audit.json", "dropped.jsonl"} <= {path.name for path in (run.folder / "data").iterdir()}
        for node in ("node2", "node3"):
            assert not cluster.path(node, OUT).exists(), node
        none_left(cluster)
        # It goes on from there, with more steps.
        run = start(cluster, case, "resume", "train.max_steps=250")
        assert "goes on from step 240" in run.end(0)
        assert run.steps()[-1] == 250
        verified(cluster, case, run, 2)


def test_faults(case):
    """Where a rank's agent, the first host or the launcher itself is gone, the run goes on from what had come here."""
    recipe(case, text="checkpoint: {save_steps: 10}\n")
    with three(case) as cluster:
        expected = undisturbed(cluster, case)

        run = start(cluster, case, "train", "recipe.yaml")
        run.await_step(60)
        os.kill(agent_on(cluster, "node2").pid, signal.SIGKILL)
        run.end(0)
        restart = next(line for line in run.log() if line["event"] == "restart")
        assert "node2" in restart["cause"] and restart["step"] >= 10, restart
        assert files(run.folder / "model") == expected
        verified(cluster, case, run, 2)

        # Another host is the first from there on: it is sent what the lost one had written.
        cluster.run("node1", ["rm", "-rf", OUT], check=True)
        run = start(cluster, case, "train", "recipe.yaml", "launch.min_hosts=1")
        run.await_step(60)
        cluster.poweroff("node2")

        def goes_on():
            (run.folder / "save").touch()  # whoever may hear of it
            return any(line["event"] == "start" and line["attempt"] == 2 for line in run.log())
        wait_until(goes_on, "the second attempt", 120)
        run.end(0)
        start_line = [line for line in run.log() if line["event"] == "start"][-1]
        assert start_line["ranks"] == 2 and start_line["resumed_from"] >= 10, start_line
        verified(cluster, case, run, 2)
        cluster.poweron("node2")

        cluster.run("node1", ["rm", "-rf", OUT], check=True)
        run = start(cluster, case, "train", "recipe.yaml")
        run.await_step(60)
        run.process.kill()
        run.process.wait(60)
        last = max(run.steps())
        run = start(cluster, case, "train", "recipe.yaml", "--resume")
        run.end(0)
        # Its ranks have saved where they were; that came here when it was called again.
        start_line = [line for line in run.log() if line["event"] == "start"][-1]
        assert start_line["resumed_from"] >= last, (start_line, last)
        assert files(run.folder / "model") == expected
        verified(cluster, case, run, 2)


def test_slow_link(case):
    """A transfer takes longer than a host may be silent: nobody is given up for it. Where it is cut nothing half is there."""
    model = case.folder / "model"
    cli_case.random_model(model, hidden_size=192, intermediate_size=512, num_attention_heads=6, num_key_value_heads=2, head_dim=32,
                          num_hidden_layers=4)
    recipe(case, steps=20, text="checkpoint: {save_steps: 10}\n", model=model)
    with three(case) as cluster:
        expected = undisturbed(cluster, case)
        cluster.rate("node1", "16mbit")
        run = start(cluster, case, "train", "recipe.yaml")
        incomplete = run.folder / "checkpoints/.incomplete-mirror"
        wait_until(lambda: incomplete.exists() and sum(len(b) for b in files(incomplete).values()) > 1 << 20, "a transfer", 120)
        os.kill(agent_on(cluster, "node2").pid, signal.SIGKILL)
        wait_until(lambda: any(line["event"] == "restart" for line in run.log()), "a restart", 120)
        run.end(0)
        restarts = [line for line in run.log() if line["event"] == "restart"]
        assert len(restarts) == 1, restarts
        assert files(run.folder / "model") == expected
        sizes = [line["bytes"] for line in run.log() if "bytes" in line]
        assert min(sizes) > 10e6, sizes  # five seconds of that link
        verified(cluster, case, run, 2)


def test_last_transfer(case):
    """The last checkpoint is still on its way when somebody does not want to wait, or the launcher is killed: it comes when the
    run goes on, and is not removed where it is.
    """
    model = case.folder / "model"
    cli_case.random_model(model, hidden_size=192, intermediate_size=512, num_attention_heads=6, num_key_value_heads=2, head_dim=32,
                          num_hidden_layers=4)
    recipe(case, steps=100000, text="checkpoint: {save_steps: 100000}\n", model=model)
    with three(case) as cluster:
        run = start(cluster, case, "train", "recipe.yaml")
        incomplete = run.folder / "checkpoints/.incomplete-mirror"

        def await_transfer():
            wait_until(lambda: incomplete.exists() and sum(len(b) for b in files(incomplete).values()) > 1 << 20, "a transfer", 120)

        run.await_step(3)
        cluster.rate("node1", "8mbit")
        run.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not ranks_on(cluster, "node2") + ranks_on(cluster, "node3"), "the ranks' end")
        await_transfer()
        there = cluster.path("node2", OUT)
        wait_until(lambda: (there / "log.jsonl").read_bytes() == (run.folder / "log.jsonl").read_bytes(), "all of the log")
        run.process.send_signal(signal.SIGTERM)
        assert "interrupted before all" in run.end(5), run.said.read_text()
        saved = [path.name for path in (there / "checkpoints").iterdir()]
        assert len(saved) == 1 and not run.checkpoints(), (saved, run.checkpoints())

        run = start(cluster, case, "train", "recipe.yaml", "--resume")
        await_transfer()
        run.process.kill()
        run.process.wait(60)
        none_left(cluster, seconds_to_end(HEARTBEAT_TIMEOUT))
        cluster.rate("node1", None)
        step = int(saved[0].removeprefix("step-"))
        run = start(cluster, case, "train", "recipe.yaml", f"train.max_steps={step + 2}", "--resume")
        assert f"goes on from step {step}" in run.end(0), run.said.read_text()
        verified(cluster, case, run, 2)


def test_requests(case):
    """What somebody asks for in the run's folder the first rank hears of; a folder that is another's stays as it is."""
    recipe(case, steps=4000, text="checkpoint: {save_steps: 100000}\n")
    with three(case) as cluster:
        cluster.run("node2", ["mkdir", OUT], check=True)
        cluster.path("node2", f"{OUT}/notes.txt").write_text("mine")
        run = start(cluster, case, "train", "recipe.yaml", "--json")
        run.await_step(3)
        (run.folder / "save").touch()
        wait_until(lambda: run.checkpoints(), "a checkpoint that was asked for")
        assert not (run.folder / "save").exists()
        run.process.send_signal(signal.SIGTERM)
        said = run.end(75)
        assert json.loads(said.splitlines()[-1])["run"] == OUT and f"saved {OUT}/checkpoints/step-" in said, said
        assert "/root/.cache/ftune/runs" not in said, said
        assert [path.name for path in cluster.path("node2", OUT).iterdir()] == ["notes.txt"]
        verified(cluster, case, run, 2)
        # Nor has a run that cannot begin replaced what is here.
        (case.folder / "bad.jsonl").write_text("no JSON\n")
        before = files(run.folder)
        start(cluster, case, "train", "recipe.yaml", "--force", "data.train=bad.jsonl").end(4)
        after = files(run.folder)
        assert all(after[name] == before[name] for name in before if name != "status.json" and not name.startswith("ranks/"))


if __name__ == "__main__":
    main(globals(), __doc__)
