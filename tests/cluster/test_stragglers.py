#!/usr/bin/env python3
"""A host whose rank is slow is named, and done without from the next restart on, where the recipe says so."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "python"))

from cli_case import random_model
from cluster_case import cluster_of, main, wait_until
from test_watch import slow_down

OUT = "/root/out"


def test_left_out(case):
    random_model(case.folder / "model", hidden_size=192, intermediate_size=512, num_hidden_layers=4,
                 num_attention_heads=6, num_key_value_heads=2, head_dim=32)
    case.recipe("launch: {hosts: [node1, node2, node3], min_hosts: 2, exclude_stragglers: true, threads: 1}\n", model="model", adapter=False)
    with cluster_of(case, 3) as cluster:
        said = case.folder / "said.txt"
        with open(said, "w") as text:
            process = cluster.popen(
                "node1", [case.ftune, "train", "recipe.yaml", f"output_dir={OUT}", "train.max_steps=100000", "train.num_epochs=100000",
                          "train.global_batch_size=12", "data.packing=false", "checkpoint.save_steps=20"],
                cwd=case.folder.resolve(), stdin=subprocess.DEVNULL, stdout=text, stderr=text,
                environment={"XDG_CACHE_HOME": "/root/cache", "HOME": "/root"})

        def events(kind, attempt):
            path = cluster.path("node1", f"{OUT}/log.jsonl")
            lines = path.read_text().splitlines(keepends=True) if path.exists() else []
            found = [json.loads(line) for line in lines if line.endswith("\n")]
            return [line for line in found if line["event"] == kind and line["attempt"] == attempt]

        def until(condition, what, seconds=120):
            def holds():
                assert process.poll() is None, said.read_text()
                return condition()
            return wait_until(holds, what, seconds)

        def rank_on(node):
            return next(p.pid for p in cluster.processes(node) if "--attempt=" in p.command)

        until(lambda: len(events("train", 1)) > 2, "steps")
        ends = threading.Event()
        tracer = threading.Thread(target=slow_down, args=(rank_on("node2"), ends.is_set))
        tracer.start()
        try:
            straggler = until(lambda: events("straggler", 1), "straggler")
        finally:
            ends.set()
            tracer.join()
        assert [(line["rank"], line["host"]) for line in straggler] == [(1, "node2")], straggler
        os.kill(rank_on("node3"), signal.SIGKILL)
        start = until(lambda: events("start", 2), "second attempt")
        assert start[0]["ranks"] == 2, start
        until(lambda: len(events("train", 2)) > 2, "steps without it")
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(60) == 75, said.read_text()
        assert "rank 1 on node2 is slow: " in said.read_text(), said.read_text()
        assert "host node2 is slow, and the run does without it" in said.read_text(), said.read_text()


if __name__ == "__main__":
    main(globals(), __doc__)
