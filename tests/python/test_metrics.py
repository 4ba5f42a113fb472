"""What Prometheus reads of a run: the pages that log.metrics_port has, by its own parser, while the run trains."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from cli_case import run_tests
from test_ranks import LONG, logged, long_recipe
from test_status import ONE, Told, status

# What the driver's library tells, of a GPU of 80 GB that is half busy and one that does not say how busy it is.
DRIVER = r"""
#include <string.h>
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct { unsigned int gpu, memory; } Use;
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned int* count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) { *device = (void*)(index + 1ul); return 0; }
int nvmlDeviceGetName(void* device, char* name, unsigned int size) { strncpy(name, "H\"100", size); return 0; }
int nvmlDeviceGetUtilizationRates(void* device, Use* use) { use->gpu = 50; return device == (void*)1 ? 0 : 3; }
int nvmlDeviceGetMemoryInfo(void* device, Memory* memory) {
  memory->total = 80000000000; memory->used = 1000 * (unsigned long)device;
  return 0;
}
"""


def get(address, path):
    with urllib.request.urlopen(f"http://{address}{path}", timeout=10) as answer:
        return answer.read().decode(), answer.headers


def metrics(address):
    """→ families by name, and samples by name and labels."""
    text, headers = get(address, "/metrics")
    assert headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8", headers
    assert text.endswith("\n") and not re.search(r"[ \t]\n", text), text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    samples = {(sample.name, *sorted(sample.labels.items())): sample.value
               for family in families.values() for sample in family.samples}
    assert len(samples) == sum(len(family.samples) for family in families.values()), "a sample twice"
    return families, samples


def begin(case, *arguments, **options):
    shutil.rmtree(case.folder / "out", ignore_errors=True)
    run = Told(case, *long_recipe(case), "log.metrics_port=0", *arguments, **options)
    run.wait_for_steps()
    run.wait_for(lambda: status(case)["state"] == "running" and status(case)["step"] > 1, "a status of steps")
    return run, status(case)["launcher"]["metrics"]


def test_pages(case):
    """Every family is described, samples are what the log says, counters grow; other paths are not found."""
    for arguments in (ONE, []):
        run, address = begin(case, *arguments, "checkpoint.save_steps=20")
        run.wait_for(lambda: status(case)["checkpoint"], "a checkpoint")
        families, samples = metrics(address)
        for family in families.values():
            assert family.name.startswith("ftune_") and family.documentation and family.type in ("gauge", "counter"), family
            assert (family.type == "counter") == all(s.name.endswith("_total") for s in family.samples), family
        step = samples["ftune_step",]
        line = next(line for line in logged(case) if line["event"] == "train" and line["step"] == step)
        for name, key in (("loss", "loss"), ("learning_rate", "lr"), ("grad_norm", "grad_norm"), ("epoch", "epoch"),
                          ("tokens_per_second", "tokens_per_second"), ("step_duration_seconds", "step_seconds")):
            assert samples[f"ftune_{name}",] == line[key], (name, samples, line)
        assert samples["ftune_run_steps",] == LONG and samples["ftune_restarts_total",] == 0, samples
        assert samples["ftune_run_state", ("state", "running")] == 1 == samples["ftune_attempt",], samples
        assert sum(value for (name, *_), value in samples.items() if name == "ftune_run_state") == 1, samples
        assert 0 <= samples["ftune_checkpoint_age_seconds",] < 60 and samples["ftune_checkpoint_step",] % 20 == 0, samples
        ranks = [dict(labels)["rank"] for (name, *labels), value in samples.items() if name == "ftune_rank_up" and value == 1]
        assert sorted(ranks) == [str(i) for i in range(1 if arguments else 2)], samples
        kinds = {dict(labels)["kind"] for name, *labels in samples if name == "ftune_memory_bytes"}
        assert {"weights", "gradients", "optimizer", "activations"} <= kinds, kinds
        assert "ftune_gpu_memory_bytes" not in families and "ftune_eval_loss" not in families, families
        run.wait_for(lambda: metrics(address)[1]["ftune_step",] > step, "another step")
        assert metrics(address)[1]["ftune_tokens_total",] > samples["ftune_tokens_total",]
        told = json.loads(get(address, "/status")[0])
        assert told["state"] == "running" and told["launcher"]["pid"] == run.process.pid, told
        done = case.run("status", address, "--json")
        assert json.loads(done.stdout)["launcher"] == told["launcher"], (done.stdout, done.stderr)
        assert "running" in case.run("status", address).stdout
        for path in ("/", "/metrics/", "/../status.json", "/status.json"):
            try:
                get(address, path)
                raise AssertionError(f"{path} is there")
            except urllib.error.HTTPError as error:
                assert error.code == 404, (path, error)
        assert case.run("stop", "out").returncode == 0
        said = run.end(143)
        assert f"metrics: http://{address}/metrics" in said, said
        case.fails(2, "status", address, says=["no run can be asked there"])


def test_restart(case):
    """The server lives with the launcher: what it tells goes on over a restart."""
    run, address = begin(case, "launch.max_restarts=2", "checkpoint.save_steps=20")
    run.wait_for(lambda: status(case)["checkpoint"], "a checkpoint")
    os.kill(run.rank(0), signal.SIGKILL)
    run.wait_for(lambda: metrics(address)[1]["ftune_restarts_total",] == 1, "a restart")
    run.wait_for(lambda: metrics(address)[1]["ftune_run_state", ("state", "running")] == 1, "training again")
    assert case.run("stop", "out", "--save").returncode == 0
    run.end(75)


def test_clients(case):
    """Those who ask for nothing, or take nothing, hold up neither others nor the run, nor its end."""
    run, address = begin(case, *ONE)
    host, port = address.split(":")
    with_nothing = [socket.create_connection((host, int(port))) for _ in range(6)]
    run.wait_for(lambda: metrics(address), "an answer beside connections that say nothing")
    for client in with_nothing:
        client.sendall(b"GET /metrics HTTP/1.1\r\nHost: " + b"x" * 100000)
    assert metrics(address)[1]["ftune_step",] > 0
    with socket.create_connection((host, int(port))) as slow:
        over = threading.Event()

        def trickle():
            while not over.wait(0.2):
                try:
                    slow.sendall(b"X-Never-Ends: ")
                except OSError:
                    return
        sender = threading.Thread(target=trickle)
        sender.start()
        assert case.run("stop", "out", "--save").returncode == 0
        run.end(75)
        over.set()
        sender.join()


def test_taken(case):
    """A port that somebody has, another run say, is an error before anything is begun; an address of nobody too."""
    first, address = begin(case, *ONE)
    port = address.split(":")[1]
    for ranks in (1, 2):
        error = case.fails(2, "train", case.recipe(), f"parallel.data={ranks}", "output_dir=new", f"log.metrics_port={port}",
                           says=["log.metrics_port", f"port {port} of 127.0.0.1 is in use"])
        assert error["key"] == "log.metrics_port" and not (case.folder / "new").exists(), error
    case.fails(2, "train", case.recipe(), "output_dir=new", "log.metrics_port=0", "log.metrics_address=192.0.2.1",
               says=["log.metrics_port", "192.0.2.1"])
    case.fails(2, "train", case.recipe(), "output_dir=new", "log.metrics_port=0", "log.metrics_address=no.such.host.invalid",
               says=["log.metrics_port", "no address of this host"])
    case.fails(2, "train", case.recipe(), "output_dir=new", "log.metrics_port=70000", says=["log.metrics_port", "70000"])
    assert case.run("stop", "out").returncode == 0
    first.end(143)
    # A port that was in use a moment ago can be taken at once.
    done = case.run("train", case.recipe(), "output_dir=new", f"log.metrics_port={port}")
    assert done.returncode == 0, done.stderr


def test_gpus(case):
    """What the driver's library says, where there is one; and one that does not work."""
    library = case.folder / "libnvidia-ml.so.1"

    def driver(source):
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, "-x", "c", "-"], input=source, text=True, check=True)
        run, address = begin(case, *ONE, environment={"LD_LIBRARY_PATH": str(case.folder.resolve())})
        samples = metrics(address)[1]
        assert case.run("stop", "out").returncode == 0
        run.end(143)
        return {(name.removeprefix("ftune_gpu_"), dict(labels)["gpu"]): value for (name, *labels), value in samples.items()
                if "gpu" in name and dict(labels)["name"] == "H\"100"}

    assert driver(DRIVER) == {("utilization_ratio", "0"): 0.5, ("memory_used_bytes", "0"): 1000, ("memory_used_bytes", "1"): 2000,
                              ("memory_bytes", "0"): 80e9, ("memory_bytes", "1"): 80e9}
    assert driver(DRIVER.replace("nvmlInit_v2(void) { return 0; }", "nvmlInit_v2(void) { return 9; }")) == {}
    assert driver(DRIVER.replace("nvmlDeviceGetName", "nvmlOther")) == {}


if __name__ == "__main__":
    raise SystemExit(run_tests(globals(), __doc__))
