#!/usr/bin/env python3
"""ftune doctor: what it finds out about this host is so, and what is wrong is named.

Standard library only. `test_doctor.py --ftune build/release/ftune --work FOLDER`.
"""

import json
import os
import platform
import re
import resource
import subprocess
import sys

from cli_case import run_tests

NAMES = ["ftune", "system", "clock", "cpu", "kernels", "memory", "shared memory", "limits", "disk", "memory bandwidth", "matrix products",
         "gpu", "gloo", "downloads", "tls", "metrics", "arrow", "ssh", "slurm"]


def doctor(case, *words, preexec=None, environment=None):
    """→ the exit status, and the checks by their names."""
    done = subprocess.run([case.ftune, "doctor", *words, "--json"], cwd=case.folder, text=True, capture_output=True, timeout=300,
                          preexec_fn=preexec, env=case.environment(environment))
    assert done.stderr == "", done.stderr
    answer = json.loads(done.stdout)
    assert [check["name"] for check in answer["checks"]] == NAMES, answer
    assert all(isinstance(check["ok"], bool) and check["detail"] and "\n" not in check["detail"] for check in answer["checks"]), answer
    assert done.returncode == answer["exit"] == (0 if all(check["ok"] for check in answer["checks"]) else 1), answer
    return done.returncode, {check["name"]: check for check in answer["checks"]}


def rates(detail, unit):
    return [float(number) for number in re.findall(rf"([0-9.]+) {unit}", detail)]


def test_this_host(case):
    _, checks = doctor(case)
    version = case.run("--version").stdout.strip()
    assert checks["ftune"]["detail"].startswith(f"{version}, build ") and len(checks["ftune"]["detail"].split()[-1]) == 16
    assert platform.release() in checks["system"]["detail"] and platform.machine() in checks["system"]["detail"]
    assert f"; {len(os.sched_getaffinity(0))} of " in checks["cpu"]["detail"], checks["cpu"]
    assert "oneDNN" in checks["kernels"]["detail"] and checks["shared memory"]["ok"]
    assert str(case.folder.resolve()) in checks["disk"]["detail"] and len(rates(checks["disk"]["detail"], "MB/s")) == 2, checks["disk"]
    assert 0.1 < rates(checks["memory bandwidth"]["detail"], "GB/s")[0] < 1e5, checks["memory bandwidth"]
    assert 0.1 < rates(checks["matrix products"]["detail"], "GFLOP/s")[0] < 1e6, checks["matrix products"]
    assert "libcurl" in checks["downloads"]["detail"] and "OpenSSL" in checks["downloads"]["detail"], checks["downloads"]
    assert os.listdir(case.folder) == ["chats.jsonl"], os.listdir(case.folder)
    one = min(os.sched_getaffinity(0))
    _, pinned = doctor(case, preexec=lambda: os.sched_setaffinity(0, {one}))
    assert "; 1 of " in pinned["cpu"]["detail"] and "1 threads" in pinned["matrix products"]["detail"], pinned
    text = case.run("doctor").stdout.splitlines()
    assert len(text) == len(NAMES) and all(line.startswith(("ok ", "FAILS ")) for line in text), text


def test_what_is_wrong(case):
    """Limits, a folder that cannot be written, programs that are not there."""
    code, checks = doctor(case, preexec=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
    assert code == 1 and not checks["limits"]["ok"] and "ulimit -n" in checks["limits"]["detail"], checks["limits"]
    code, checks = doctor(case, preexec=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)))
    assert code == 1 and not checks["disk"]["ok"] and "cannot be written" in checks["disk"]["detail"], checks["disk"]
    _, checks = doctor(case, environment={"PATH": "/nowhere"})
    assert checks["ssh"]["ok"] and "no ssh on PATH" in checks["ssh"]["detail"], checks["ssh"]
    alone = case.folder / "bin" / "ftune"
    alone.parent.mkdir()
    os.link(case.ftune, alone)
    answer = json.loads(subprocess.run([alone, "doctor", "--json"], cwd=case.folder, capture_output=True, text=True,
                                       env=case.environment({"FTUNE_PLUGINS": ""})).stdout)
    found = {check["name"]: check for check in answer["checks"]}
    assert "libftune_network.so" in found["downloads"]["detail"] and "ftune-arrow.so" in found["arrow"]["detail"], found
    assert "libftune_network.so" in found["tls"]["detail"] and "libftune_server.so" in found["metrics"]["detail"], found
    assert all(found[name]["ok"] for name in ("downloads", "arrow", "tls", "metrics"))  # nothing needs them
    answer = json.loads(subprocess.run([alone, "doctor", case.recipe(), "--json", "log.metrics_port=0", "launch.hosts=[node1, node2]",
                                        "launch.tls=true"], cwd=case.folder, capture_output=True, text=True,
                                       env=case.environment({"FTUNE_PLUGINS": ""})).stdout)
    found = {check["name"]: check for check in answer["checks"]}
    assert [name for name in ("downloads", "tls", "metrics") if not found[name]["ok"]] == ["tls", "metrics"], found


def test_recipe(case):
    """What a recipe needs is more than good to have; its output folder is measured, and not made."""
    recipe = case.recipe()
    _, checks = doctor(case, recipe, "output_dir=far/away")
    assert str(case.folder.resolve()) in checks["disk"]["detail"] and not (case.folder / "far").exists(), checks["disk"]
    code, checks = doctor(case, recipe, "launch.hosts=[node1, node2]", environment={"PATH": "/nowhere"})
    assert code == 1 and not checks["ssh"]["ok"] and "the recipe needs it" in checks["ssh"]["detail"], checks["ssh"]
    case.fails(2, "doctor", recipe, "train.lerning_rate=1", says=["train.lerning_rate"])
    case.fails(2, "doctor", "missing.yaml", says=["missing.yaml"])
    case.fails(2, "doctor", recipe, "--hosts", says=["--hosts", "no hosts"])
    case.fails(2, "doctor", "--hosts", says=["--hosts", "no hosts"])
    case.fails(2, "doctor", "--hosts", "a,,b", says=["--hosts", "a,,b"])


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
