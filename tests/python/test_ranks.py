"""Runs of several ranks through the ftune binary: started by ftune itself, by hand, and by torchrun; and what happens to
a run one of whose ranks dies, stops or is told wrong things."""

import fcntl
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from cli_case import CHATS, edit_json, model_copy, random_model, run_tests, tensors

LONG = 100000  # steps: more than any test waits for
ONCE = ["launch.max_restarts=0"]


def losses(case, run="out"):
    return [line["loss"] for line in case.log(run) if line["event"] == "train"]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command_lines():
    """→ the arguments of every process, by its number."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                found[int(folder.name)] = (folder / "cmdline").read_bytes().split(b"\0")
            except OSError:
                pass  # it has ended meanwhile
    return found


def environment_of(pid):
    lines = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    return dict(line.decode().split("=", 1) for line in lines if b"=" in line)


class Run:
    """A training run in the background, which is not started again where it fails."""

    def __init__(self, case, *arguments, environment=None, limit=None, stderr=subprocess.PIPE):
        self.case, self.folder = case, case.folder / "out"
        self.begun = time.time()
        # What the ranks inherit, so that they are found among all processes.
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self.process = subprocess.Popen(
            [case.ftune, "train", str(arguments[0]), *ONCE, *map(str, arguments[1:]), "output_dir=out"], cwd=case.folder, text=True,
            stdout=subprocess.PIPE, stderr=stderr,
            process_group=0,  # as a shell would start it
            preexec_fn=limit and (lambda: resource.setrlimit(limit[0], (limit[1], limit[1]))),
            env=case.environment({**(environment or {}), "FTUNE_TEST_MARK": self.mark}))

    def processes(self):
        """→ the numbers of the processes of the run, by rank; that of the launcher by None."""
        found = {}
        for pid in command_lines():
            try:
                variables = environment_of(pid)
            except OSError:
                continue
            if variables.get("FTUNE_TEST_MARK") == self.mark:
                rank = variables.get("RANK")
                found[None if rank is None else int(rank)] = pid
        return found

    def rank(self, number):
        return self.wait_for(lambda: self.processes().get(number), f"rank {number}")

    def wait_for(self, condition, what, seconds=60):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            found = condition()
            if found:
                return found
            assert self.process.poll() is None, f"ended before {what}: {self.process.communicate()}"
            time.sleep(0.02)
        raise AssertionError(f"no {what} within {seconds} s")

    def steps(self):
        """→ how many are in the log, in which lines of a run before may still be."""
        log = self.folder / "log.jsonl"
        lines = map(json.loads, log.read_text().split("\n")[:-1]) if log.exists() else []
        return sum(line["event"] == "train" and line["time"] >= self.begun for line in lines)

    def wait_for_steps(self, count=2):
        self.wait_for(lambda: self.steps() >= count, f"{count} steps")

    def end(self, code, says=(), seconds=60):
        """Waits for the end; checks the exit status, what is said, and that nothing is left."""
        out, err = self.process.communicate(timeout=seconds)
        assert self.process.returncode == code, f"exit {self.process.returncode}, expected {code}: {out}{err[-5000:]}"
        for part in says:
            assert part in out + err, f"'{part}' is not in: {out}{err[-5000:]}"
        self.check_nothing_left()
        return out, err

    def states(self):
        """→ of each process of the run: R, S, T (stopped), …"""
        return {who: Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
                for who, pid in self.processes().items()}

    def check_nothing_left(self, seconds=0):
        end = time.monotonic() + seconds
        while self.processes() and time.monotonic() < end:
            time.sleep(0.05)
        assert not self.processes(), self.processes()
        left = [name for name in os.listdir("/dev/shm") if "ftune" in name]
        assert not left, left


def long_recipe(case, more=""):
    return case.recipe(f"parallel: {{data: 2}}\nlaunch: {{heartbeat_timeout: 2s}}\n{more}", name="long.yaml"), \
        f"train.max_steps={LONG}", f"train.num_epochs={LONG}"


def test_curve(case):
    """Two and three ranks give the curve of one, its weights and its evaluation."""
    evaluation = "data.val_set_size=3"
    one = case.run("train", case.recipe(), "train.global_batch_size=6", evaluation, "data.packing=false", "output_dir=one", "--json")
    assert one.returncode == 0, one.stderr
    for ranks in (2, 3):
        run = f"ranks-{ranks}"
        done = case.run("train", case.recipe(), "train.global_batch_size=6", evaluation, "data.packing=false",
                        f"parallel.data={ranks}", f"output_dir={run}", "--json")
        assert done.returncode == 0, done.stderr
        answer, expected = json.loads(done.stdout), json.loads(one.stdout)
        assert answer["steps"] == expected["steps"] == 3
        assert math.isclose(answer["eval_loss"], expected["eval_loss"], rel_tol=1e-5), (answer, expected)
        for ours, theirs in zip(losses(case, run), losses(case, "one"), strict=True):
            assert math.isclose(ours, theirs, rel_tol=1e-5), (losses(case, run), losses(case, "one"))
        start = case.log(run)[0]
        assert start["ranks"] == ranks and start["mesh"]["data"] == ranks, start
        tokens = [[line["tokens"] for line in case.log(name) if line["event"] == "train"] for name in (run, "one")]
        assert tokens[0] == tokens[1], tokens
        logs = sorted(path.name for path in (case.folder / run / "ranks" / "attempt-1").iterdir())
        assert logs == [f"rank-{i}.log" for i in range(ranks)], logs
        assert f"mesh: {ranks} ranks" in done.stderr and f"rank {ranks - 1}: data {ranks - 1}" in done.stderr, done.stderr
        assert "plan:" not in (case.folder / run / "ranks" / "attempt-1" / "rank-1.log").read_text()
    # A run is not trained over, and is with --force.
    case.fails(2, "train", case.recipe(), "parallel.data=2", "output_dir=ranks-2", says=["output_dir", "--force"])
    assert case.run("train", case.recipe(), "parallel.data=2", "output_dir=ranks-2", "--force").returncode == 0


def launch_kind(case, run="out"):
    text = case.resolved(run)
    return re.search(r"^launch:\n(?:  .*\n)*?  kind: (\w+)$", text, re.MULTILINE).group(1)


def test_by_hand(case):
    """Two processes that somebody else starts."""
    recipe, port = case.recipe(), free_port()
    variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    runs = [Run(case, recipe, "parallel.data=2", environment={**variables, "RANK": str(i), "LOCAL_RANK": str(i)})
            for i in range(2)]
    for run in runs:
        run.process.wait(timeout=60)
    out, err = runs[0].end(0, says=["out/adapter", "step 3/3"])
    assert runs[1].end(0) == ("", "")
    assert launch_kind(case) == "env"
    # Another recipe is noticed.
    runs = [Run(case, recipe, "parallel.data=2", "--force", f"train.seed={i}",
                environment={**variables, "RANK": str(i), "LOCAL_RANK": str(i)}) for i in range(2)]
    for run in runs:
        run.process.wait(timeout=60)
    for run in runs:
        run.end(2, says=["rank 1", "another recipe", "seed: 1"])


def edit_bytes(path, old, new):
    content = path.read_bytes()
    assert old in content and len(old) == len(new), path
    path.write_bytes(content.replace(old, new))


def last_byte(path):
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


def homes(case, change):
    """Two hosts' folders with the same files, but for what `change` does to the second."""
    for name in ("a", "b"):
        home = case.folder / name
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir()
        model_copy(case, f"{name}/model")
        for file in ("chats.jsonl", "eval.jsonl"):
            shutil.copy(case.folder / "chats.jsonl", home / file)
        (home / "order.csv").write_text("F0.0,F0.1,BW0.0,BW0.1\nF1.0,BW1.0,F1.1,BW1.1\n")
    change(case.folder / "b")


def test_other_files(case):
    """Ranks that read each its own files are told at once where these differ: which rank, and which file."""
    recipe = case.folder / case.recipe(model="model", adapter=False)
    recipe.write_text(recipe.read_text().replace(", num_epochs: 3", ""))  # which streams do not have

    def run(*arguments):
        variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(free_port())}
        ranks = [subprocess.Popen([case.ftune, "train", recipe, f"output_dir={case.folder / 'out'}", "--force", *arguments],
                                  cwd=case.folder / "ab"[i], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env=case.environment({**variables, "RANK": str(i), "LOCAL_RANK": str(i)}))
                 for i in range(2)]
        return [(rank.communicate(timeout=60)[1], rank.returncode) for rank in ranks]

    def layers(b):
        shutil.rmtree(b / "model")
        random_model(b / "model", num_hidden_layers=7, head_dim=8)

    data, pipeline = "parallel.data=2", "parallel.pipeline=2"
    order, stream = [pipeline, "parallel.schedule=order.csv"], [pipeline, "data.streaming=true"]
    step = "rank 0 and rank 1 train on parts of one batch, and their data differ"
    evaluated = [data, "data.eval=eval.jsonl"]
    for change, arguments, code, says in (
            (lambda b: last_byte(b / "model/model.safetensors"), [data], 4, ["file of model.path", "model/model.safetensors on "]),
            (lambda b: edit_json(b / "model/config.json", lambda c: c.update(rms_norm_eps=1e-3)), [pipeline], 4,
             ["file of model.path", "model/config.json on "]),
            (layers, [pipeline], 4, ["file of model.path", "model/config.json on "]),
            (lambda b: edit_bytes(b / "chats.jsonl", b"1 plus 1", b"9 plus 9"), [pipeline], 4, ["file of data.train", "chats.jsonl on "]),
            (lambda b: (b / "chats.jsonl").write_text("".join((b / "chats.jsonl").open().readlines()[:-1])), [data], 4,
             ["file of data.train", "chats.jsonl on "]),
            (lambda b: edit_bytes(b / "eval.jsonl", b"It is 22", b"It is 23"), evaluated, 4, ["file of data.eval", "eval.jsonl on "]),
            (lambda b: edit_bytes(b / "model/tokenizer_config.json", b"<|im_start|>", b"<|im_end|>  "), [pipeline], 4,
             ["samples of data.train", "tokenizer's files"]),
            (lambda b: (b / "order.csv").write_text("F0.0,BW0.0,F0.1,BW0.1\nF1.0,BW1.0,F1.1,BW1.1\n"), order, 4,
             ["file of parallel.schedule", "order.csv on "]),
            (lambda b: edit_bytes(b / "chats.jsonl", b"1 plus 1", b"9 plus 9"), stream, 5, [step])):
        homes(case, lambda b: None)
        for err, status in run(*arguments):
            assert status == 0, (arguments, err)
        homes(case, change)
        for err, status in run(*arguments):
            assert status == code, (arguments, status, err)
            if code == 4:
                assert "rank 1: its " in err and " than rank 0's" in err, (arguments, err)
            for part in says:
                assert part in err, (arguments, part, err)


def test_torchrun(case):
    """torchrun's own store is used, which has the port."""
    torchrun = Path(sys.executable).parent / "torchrun"
    if not torchrun.exists():
        return print("skipped: no torchrun beside this Python")
    done = subprocess.run([torchrun, "--no-python", "--nproc-per-node", "2", "--master-port", str(free_port()),
                           case.ftune, "train", case.recipe(), "parallel.data=2", "output_dir=out"],
                          cwd=case.folder, capture_output=True, text=True, timeout=120, env=case.environment())
    assert done.returncode == 0 and "step 3/3" in done.stderr, done.stderr
    assert done.stdout.split() == ["out/adapter"], done.stdout
    assert launch_kind(case) == "env"


def test_wrong_variables(case):
    good = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    for name, value, says in (("RANK", "2", "below WORLD_SIZE"), ("RANK", "x", "an integer"), ("RANK", "", "RANK: it is not set"),
                              ("WORLD_SIZE", "0", "WORLD_SIZE"), ("WORLD_SIZE", "3", "data 2 = 2 ranks"),
                              ("LOCAL_RANK", "-1", "LOCAL_RANK"), ("MASTER_ADDR", "", "MASTER_ADDR"),
                              ("MASTER_PORT", "70000", "MASTER_PORT"), ("LOCAL_WORLD_SIZE", "3", "at most WORLD_SIZE")):
        # A rank that was to train would wait for others, to tell them.
        done = case.run("train", case.recipe(), "parallel.data=2", "--dry-run", environment={**good, name: value})
        assert done.returncode == 2 and says in done.stderr and name in done.stderr, (name, value, done.stderr)
        assert done.stderr.count("error:") == 1, done.stderr


def test_port_in_use(case):
    """By another program: rank 0 says so at once, and so does a rank that is answered by it."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(taken.getsockname()[1])}
        done = case.run("train", case.recipe(), "parallel.data=2", environment={**variables, "RANK": "0", "LOCAL_RANK": "0"})
        assert done.returncode == 2 and "MASTER_PORT" in done.stderr and "in use" in done.stderr, done.stderr
    # And nobody there at all.
    done = case.run("train", case.recipe(), "parallel.data=2", *ONCE, "launch.start_timeout=1s",
                    environment={**variables, "RANK": "1", "LOCAL_RANK": "1"})
    assert done.returncode == 6 and "nobody answered" in done.stderr, done.stderr


# Meshes that talk in every way there is.
MESHES = (["parallel.data=2"], ["parallel.data=2", "parallel.zero=3"],
          ["parallel.tensor=2", "parallel.data=2", "parallel.zero=3", "parallel.sequence_parallel=true"])


def slow_recipe(case):
    """Of a model that takes a while to load, and whose steps are long enough to be met in any part of them."""
    random_model(case.folder / "model", hidden_size=384, intermediate_size=1024, num_hidden_layers=4,
                 num_attention_heads=6, num_key_value_heads=2, head_dim=64)
    return case.recipe("launch: {heartbeat_timeout: 2s, threads: 1}\n", model="model", adapter=False), \
        "--force", f"train.max_steps={LONG}", f"train.num_epochs={LONG}"


def wait_for_load(run, number):
    """Until the rank has opened the model."""
    maps = Path(f"/proc/{run.rank(number)}/maps")
    run.wait_for(lambda: "model.safetensors" in maps.read_text(), "model")


def test_restarted(case):
    """Ranks that were killed are started again, as often as is allowed, and the run comes to what it would have come to."""
    steps, again = 1000, "launch.max_restarts=2"
    arguments = [case.recipe(adapter=False), "parallel.data=2", f"train.max_steps={steps}", f"train.num_epochs={LONG}",
                 "checkpoint.save_steps=10"]
    Run(case, *arguments).end(0)
    expected = (case.folder / "out" / "model" / "model.safetensors").read_bytes()
    victims = random.Random(2)

    def killed(times):
        shutil.rmtree(case.folder / "out")
        run = Run(case, *arguments, again)
        for attempt in range(1, times + 1):
            run.wait_for(lambda a=attempt: any(line["attempt"] == a and line["event"] == "save" for line in logged(case)), "save")
            os.kill(run.rank(victims.choice([0, 1])), signal.SIGKILL)
        return run

    _, err = killed(2).end(0, ["restart 1 of 2: error: rank ", "restart 2 of 2: error: rank ", "attempt 3 goes on from step "])
    assert (case.folder / "out" / "model" / "model.safetensors").read_bytes() == expected, err[-3000:]
    restarts = [line for line in case.log() if line["event"] == "restart"]
    assert [line["attempt"] for line in restarts] == [2, 3], restarts
    assert all("was killed by signal 9 (SIGKILL)" in line["cause"] for line in restarts), restarts
    killed(3).end(5, ["the run is not started again: after 2 restarts (launch.max_restarts)", "was killed by signal 9"])
    # What is wrong with the data stays wrong.
    (case.folder / "chats.jsonl").write_text("{")
    shutil.rmtree(case.folder / "out")
    _, err = Run(case, *arguments, again).end(4)
    assert "started again" not in err, err


def logged(case):
    log = case.folder / "out" / "log.jsonl"
    return [json.loads(line) for line in log.read_text().split("\n")[:-1]] if log.exists() else []


def test_killed(case):
    """A rank that is killed ends the run, whenever it happens, and is named."""
    arguments = slow_recipe(case)
    moments = random.Random(1)
    for mesh, when in (*((MESHES[0], when) for when in ("start", "load")), (MESHES[2], "load"),
                       *((mesh, "step") for mesh in MESHES for _ in range(2))):
        run = Run(case, *arguments, *mesh)
        victim = run.rank(1)
        if when == "load":
            wait_for_load(run, 1)
        elif when == "step":
            run.wait_for_steps(1)
            time.sleep(moments.uniform(0, 0.3))  # forward, backward, a collective, the optimizer
        os.kill(victim, signal.SIGKILL)
        run.end(5, says=["rank 1: it was killed by signal 9 (SIGKILL)", "rank-1.log"])


def test_stopped(case):
    """A rank that stands still is given up: before it has come, when it should, or when it has been stopped for the
    heartbeat's time; then after that time, or where it keeps the others waiting for too long. It is not waited for to
    end, which it cannot."""
    arguments = slow_recipe(case)
    for when, mesh, code, says, more in (
            ("start", MESHES[0], 6, ["it did not ", " within 1s", "rank 1 (pid"], ["launch.start_timeout=1s"]),
            ("start", MESHES[0], 5, ["it has been stopped for 2s|nothing was heard", "rank 1 (pid"], []),
            ("step", MESHES[2], 5, ["nothing was heard"], []),
            ("step", MESHES[0], 6, ["it did not come to"], ["launch.heartbeat_timeout=100s", "launch.step_timeout=1s"])):
        run = Run(case, *arguments, *mesh, *more)
        victim = run.rank(1)
        if when == "step":
            run.wait_for_steps()
        os.kill(victim, signal.SIGSTOP)
        out, err = run.end(code, says=[f"rank 1 (pid {victim}) is stopped; its log is out/", *says[1:]])
        # On a slow machine it may have come before it was stopped.
        assert any(f"error: rank 1: {text}" in out + err for text in says[0].split("|")), (when, says, err)


def test_suspended(case):
    """Ctrl-Z stops the ranks too, for longer than any time-out, and they go on with the launcher."""
    arguments = slow_recipe(case)
    for when in ("load", "step"):
        run = Run(case, *arguments, *MESHES[2], "launch.step_timeout=2s")
        if when == "load":
            wait_for_load(run, 1)
        else:
            run.wait_for_steps()
        for _ in range(2):
            os.killpg(run.process.pid, signal.SIGTSTP)
            run.wait_for(lambda: set(run.states().values()) == {"T"}, "stop of all")
            steps = run.steps()
            time.sleep(4)
            assert run.steps() == steps and len(run.states()) == 5, run.states()
            os.killpg(run.process.pid, signal.SIGCONT)
            run.wait_for_steps(steps + 2)
        run.process.send_signal(signal.SIGTERM)
        out, err = run.end(75)
        assert "is stopped" not in err and "goes on" not in err, err


def test_reader(case):
    """A launcher that is stopped alone, or whose output nobody reads, holds no rank up; and one whose reader has left
    goes on."""
    arguments = *long_recipe(case), "--force"
    enough = 1500  # steps, whose lines fill pipes many times over
    run = Run(case, *arguments)
    run.wait_for_steps()
    run.process.send_signal(signal.SIGSTOP)
    run.wait_for_steps(run.steps() + enough)
    run.process.send_signal(signal.SIGCONT)
    run.process.send_signal(signal.SIGTERM)
    run.end(75)

    run = Run(case, *arguments)
    fcntl.fcntl(run.process.stderr, fcntl.F_SETPIPE_SZ, 4096)
    run.wait_for_steps(enough)
    os.kill(run.rank(1), signal.SIGKILL)  # it still sees what becomes of them
    run.wait_for(lambda: not {0, 1} & set(run.processes()), "end of the ranks")
    out, err = run.end(5, says=["rank 1: it was killed", "lines are not shown"])
    assert "step 1/" in err, err[:1000]
    rank_log = (run.folder / "ranks" / "attempt-1" / "rank-0.log").read_text()
    assert rank_log.count("\nstep ") >= enough > err.count("\nstep "), (rank_log.count("\nstep "), err.count("\nstep "))

    for more in ([], ["parallel.data=1"]):  # and without a launcher
        run = Run(case, *arguments, *more)
        run.process.stderr.readline()
        run.process.stderr.close()
        run.process.stdout.close()
        run.wait_for_steps(50)
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait(timeout=60) == 75
        run.check_nothing_left()
        assert list((run.folder / "checkpoints").glob("step-*/manifest.json"))
        if not more:
            rank_log = (run.folder / "ranks" / "attempt-1" / "rank-0.log").read_text()
            assert rank_log.count("nobody reads standard error any more") == 1, rank_log[-500:]


def test_terminal(case):
    """On a terminal the line of steps is drawn over, though the ranks write to files; those have lines."""
    reader, writer = os.openpty()
    run = Run(case, case.recipe("parallel: {data: 2}\n"), stderr=writer)
    os.close(writer)
    shown = b""
    try:
        while part := os.read(reader, 1 << 16):
            shown += part
    except OSError:  # the other end is closed
        pass
    os.close(reader)
    assert run.process.wait(timeout=60) == 0
    assert shown.count(b"\r\x1b[Kstep ") == 2 and b"step 1/3" in shown and shown.count(b"\x1b[Ksaved ") == shown.count(b"\ndone:") == 1, shown
    lines = (run.folder / "ranks" / "attempt-1" / "rank-0.log").read_bytes().splitlines()
    assert sum(line.startswith(b"step ") for line in lines) == 3 and not any(b"\x1b" in line for line in lines), lines
    assert run.process.stdout.read() == "out/adapter\n"


def test_slowed(case):
    """A rank that is slow holds the others up, and no more."""
    run = Run(case, *slow_recipe(case), *MESHES[0])
    run.wait_for_steps()
    victim = run.rank(1)
    for _ in range(4):
        os.kill(victim, signal.SIGSTOP)
        time.sleep(0.7)
        os.kill(victim, signal.SIGCONT)
        time.sleep(0.1)
    run.wait_for_steps(run.steps() + 2)
    run.process.send_signal(signal.SIGTERM)
    run.end(75)


def test_memory(case):
    """Memory that the system refuses, at several points: an error, and all ranks gone."""
    arguments = slow_recipe(case)
    for kilobytes in (150000, 200000, 300000):
        for mesh in MESHES[:2]:
            run = Run(case, *arguments, *mesh, limit=(resource.RLIMIT_AS, kilobytes * 1024))
            out, err = run.process.communicate(timeout=60)
            assert run.process.returncode in (3, 4, 5), (kilobytes, mesh, out, err)
            assert sum("error:" in line for line in err.splitlines()) == 1 and "terminate called" not in err, err
            assert any(part in err for part in ("memory", "refused")), err
            run.check_nothing_left()


def test_memory_of_one(case):
    """One rank of two gets little memory: in whatever thread it runs out, it says so, and the other ends."""
    arguments = *slow_recipe(case), "parallel.data=2"
    said = 0
    for kilobytes in range(88000, 128000, 4000):
        variables = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        runs = [Run(case, *arguments, "train.max_steps=3", "launch.start_timeout=3s",
                    environment={**variables, "RANK": str(i), "LOCAL_RANK": str(i)},
                    limit=(resource.RLIMIT_AS, kilobytes * 1024) if i == 1 else None) for i in range(2)]
        out, err = runs[1].process.communicate(timeout=60)
        other = runs[0].process.communicate(timeout=60)[1]
        code = runs[1].process.returncode
        if "shared librar" in err or code == -signal.SIGSEGV:
            continue  # the program could not be loaded
        errors = [line for line in err.splitlines() if "error:" in line]
        assert code in (3, 5) and len(errors) == 1 and "terminate called" not in err, (kilobytes, code, err)
        assert "rank 1: " in errors[0] and any(part in errors[0] for part in ("memory", "refused")), errors
        assert runs[0].process.returncode in (3, 5, 6) and "rank 1: " in other, (kilobytes, other)
        said += 1
    assert said >= 4, said
    # And what a rank says reaches the one who started it.
    run = Run(case, *arguments)
    limit = 200000 * 1024
    resource.prlimit(run.rank(1), resource.RLIMIT_AS, (limit, limit))
    run.end(3, says=["rank 1: ", "memory"])


def test_launcher_killed(case):
    """The ranks do not outlive who started them, even where they write nothing that nobody could read."""
    run = Run(case, *long_recipe(case), "--quiet")
    run.wait_for_steps()
    run.process.kill()
    run.process.wait()
    run.check_nothing_left(seconds=5)


def test_signals(case):
    """All ranks stop after the same step, and what they have is saved; a second signal ends them at once."""
    run = Run(case, *long_recipe(case))
    run.wait_for_steps()
    run.process.send_signal(signal.SIGTERM)
    out, err = run.end(75, says=["stopped by SIGTERM", "ftune resume out", "out/checkpoints/step-"])
    assert err.count("stopping after this microbatch") == 1, err
    end = case.log()[-1]
    assert end["event"] == "end" and end["exit"] == 75, end
    # Before there is anything to save, the first one ends them.
    arguments = slow_recipe(case)
    for signals in (1, 2):
        run = Run(case, *arguments, *MESHES[2])
        wait_for_load(run, 1)
        for _ in range(signals):
            run.process.send_signal(signal.SIGTERM)
        out, err = run.end(143)
        assert "error" not in err, err
    # A second one does not wait for the end of the step.
    run = Run(case, *arguments, *MESHES[2])
    run.wait_for_steps()
    run.process.send_signal(signal.SIGTERM)
    time.sleep(0.02)
    run.process.send_signal(signal.SIGTERM)
    code = run.process.wait(timeout=60)
    run.end(code)
    assert code in (143, 75), code  # 75 where it was done already
    # With early stopping, what is saved is the best so far.
    run = Run(case, *arguments, *MESHES[0], "data.val_set_size=3", "train.eval_steps=2",
              f"train.early_stopping_patience={LONG}")
    run.wait_for_steps(5)
    run.process.send_signal(signal.SIGTERM)
    run.end(75, says=["stopped; the result is that of step", "ftune resume out"])


def test_errors(case):
    """An error of all ranks is said once, with its own exit status; and --json has it."""
    case.fails(7, "train", case.recipe(adapter=False), "parallel.data=2", "precision.weights=fp16", "precision.loss_scale=1e300",
               "output_dir=out", "--force", says=["step 1", "overflow"])
    case.fails(4, "train", case.recipe(), "data.train=nothing.jsonl", "parallel.data=2", "output_dir=none", says=["nothing.jsonl"])
    case.rows(CHATS[:2])
    case.fails(2, "train", case.recipe(), "parallel.data=3", "train.global_batch_size=3", "output_dir=few", "--force",
               says=["parallel.data", "never get a sample"])
    case.fails(2, "train", case.recipe(), "parallel.data=3", "output_dir=few", says=["global_batch_size"])
    case.fails(2, "train", case.recipe(), "parallel.data=2", "data.train=-", "output_dir=pipe", text="", says=["data.train", "pipe"])
    case.fails(2, "train", case.recipe(), "parallel.data=2", "launch.ranks_per_host=3", "output_dir=none",
               says=["launch.ranks_per_host", "data 2 = 2 ranks"])
    case.fails(2, "train", case.recipe(), "parallel.tensor=2", "launch.ranks_per_host=3", "output_dir=none",
               says=["launch.ranks_per_host", "a multiple of tensor 2"])
    case.fails(2, "train", case.recipe(), "parallel.tensor=2", "output_dir=none",
               says=["parallel.tensor", "3 heads, 1 key/value heads", "one of 1, 3"])
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as pipe:
        pipe.write((case.folder / case.recipe()).read_text())
    done = subprocess.run([case.ftune, "train", f"/dev/fd/{reader}", "parallel.data=2"], cwd=case.folder, pass_fds=[reader],
                          capture_output=True, text=True, timeout=60)
    os.close(reader)
    assert done.returncode == 2 and "regular file" in done.stderr, done.stderr
    case.fails(2, "train", case.recipe(), "launch.kind=env", says=["launch.kind", "RANK"])
    case.fails(2, "train", case.recipe(), "parallel.data=2", "--lr-range-test", says=["--lr-range-test"])


def test_tensor(case):
    """Ranks that share each layer give the curve of one, with sequence parallelism too, and write the same model."""
    # As many numbers, in heads that two ranks can share.
    model = model_copy(case)
    edit_json(model / "config.json", lambda c: c.update(num_attention_heads=6, num_key_value_heads=2, head_dim=4))
    recipe = case.recipe(model="model", adapter=False)
    assert case.run("train", recipe, "output_dir=one").returncode == 0
    for name, more in (("tensor", []), ("sequence", ["parallel.sequence_parallel=true"]), ("mesh", ["parallel.data=2", "parallel.zero=3"])):
        done = case.run("train", recipe, "parallel.tensor=2", f"output_dir={name}", *more)
        assert done.returncode == 0, done.stderr
        for ours, theirs in zip(losses(case, name), losses(case, "one"), strict=True):
            assert math.isclose(ours, theirs, rel_tol=1e-4), (name, losses(case, name), losses(case, "one"))
        size = [(case.folder / run / "model" / "model.safetensors").stat().st_size for run in (name, "one")]
        assert size[0] == size[1], size
    case.fails(2, "train", recipe, "parallel.tensor=3", "output_dir=three", says=["parallel.tensor"])


def mesh_models(case):
    """Models that two ranks share evenly, in whole blocks of what is quantised, and unevenly."""
    sizes = {"hidden_size": 64, "num_hidden_layers": 2}
    random_model(case.folder / "even", **sizes, num_attention_heads=4, num_key_value_heads=2, head_dim=32,
                 intermediate_size=256)
    random_model(case.folder / "uneven", **sizes, num_attention_heads=9, num_key_value_heads=3, head_dim=8,
                 intermediate_size=200)


def train(case, recipe, run, *arguments):
    done = case.run("train", recipe, "train.global_batch_size=4", "launch.threads=1", f"output_dir={run}", "--force", *arguments)
    assert done.returncode == 0, (arguments, done.stderr)
    return done.stderr


def test_results(case):
    """The model or adapter that a mesh writes is that of one rank, and so are its answers and its early stop."""
    mesh_models(case)
    meshes = (["parallel.data=2", "parallel.zero=3", "parallel.persistence_threshold=0"], ["parallel.tensor=2"],
              ["parallel.tensor=2", "parallel.data=2", "parallel.zero=3", "parallel.sequence_parallel=true"])
    more = ['train.sample_prompts=["What is 2 plus 2?", "Hello"]', "train.sample_max_new_tokens=8", "data.val_set_size=3",
            "train.eval_steps=1", "train.early_stopping_patience=1", "train.max_steps=6", "train.num_epochs=9",
            "optimizer.learning_rate=0.02", "optimizer.lr_scheduler=constant"]

    def facts(run):
        return [(line["step"], line["samples"]) for line in case.log(run) if line["event"] == "eval"]

    for model, adapter in (("even", False), ("uneven", False), ("uneven", True)):
        recipe = case.recipe(model=model, adapter=adapter)
        file = "adapter/adapter_model.safetensors" if adapter else "model/model.safetensors"
        # Adam divides rounding errors by rounding errors where a gradient is nearly 0, but for eps.
        train(case, recipe, "one", "optimizer.eps=1e-5")
        whole = tensors(case.folder / "one" / file)
        train(case, recipe, "answers-one", *more)
        for mesh in meshes:
            said = train(case, recipe, "mesh", "optimizer.eps=1e-5", *mesh)
            assert ("share this model unevenly" in said) == (model == "uneven" and "parallel.tensor=2" in mesh), said
            found = tensors(case.folder / "mesh" / file)
            assert list(found) == list(whole), (list(found), list(whole))
            for name, values in whole.items():
                worst = max(abs(a - b) for a, b in zip(found[name], values, strict=True))
                assert worst <= 1e-6, (model, adapter, mesh, name, worst)
        train(case, recipe, "answers", *more, *meshes[2])
        assert facts("answers") == facts("answers-one"), (facts("answers"), facts("answers-one"))


def test_flops(case):
    """What a step takes is a matter of its tokens: the same on any mesh, whatever its ranks repeat or pad."""
    mesh_models(case)

    def flops(run):
        return [line["flops_per_second"] * line["step_seconds"] for line in case.log(run) if line["event"] == "train"]

    for model in ("even", "uneven"):
        for adapter in (False, True):
            recipe = case.recipe(model=model, adapter=adapter)
            common = ["train.global_batch_size=8", "data.packing=false"]
            train(case, recipe, "one", *common)
            expected = flops("one")
            assert len(expected) == 3 and 1e6 < 1.5 * expected[1] < expected[0], expected  # 8, 4 and 8 samples
            for mesh in (["parallel.data=2", "train.micro_batch_size=4"], ["parallel.tensor=2"],
                         ["parallel.tensor=2", "parallel.data=2", "parallel.zero=3", "parallel.sequence_parallel=true"]):
                train(case, recipe, "mesh", *common, *mesh)
                for ours, theirs in zip(flops("mesh"), expected, strict=True):
                    assert math.isclose(ours, theirs, rel_tol=1e-9), (model, adapter, mesh, flops("mesh"), expected)


def test_recipe_again(case):
    """The recipe that a run of several ranks leaves gives the same run."""
    mesh_models(case)
    train(case, case.recipe(model="even"), "first", *MESHES[2])
    shutil.copyfile(case.folder / "first" / "recipe.yaml", case.folder / "again.yaml")
    done = case.run("train", "again.yaml", "output_dir=second")
    assert done.returncode == 0, done.stderr
    assert losses(case, "second") == losses(case, "first")
    assert launch_kind(case, "second") == "local"
    case.fails(2, "train", "again.yaml", "output_dir=third", "parallel.data=1", says=["launch.ranks_per_host", "4 on 1 host"])


# What else a recipe may ask for, with the meshes on which that might go wrong.
DATA, ZERO1, ZERO3, TENSOR = (["parallel.data=2"], ["parallel.data=2", "parallel.zero=1"],
                              ["parallel.data=2", "parallel.zero=3", "parallel.persistence_threshold=0"],
                              ["parallel.tensor=2", "parallel.sequence_parallel=true"])
OPTIONS = (
    (False, ["data.packing=false"], [DATA, TENSOR]),
    (False, ["memory.activation_checkpointing=full"], [ZERO3, TENSOR]),
    (True, ["memory.activation_checkpointing=selective"], [ZERO3, TENSOR]),
    (False, ["precision.weights=bf16"], [ZERO1, TENSOR]),
    (False, ["precision.weights=bf16", "precision.master=none"], [ZERO1, ZERO3]),
    (False, ["precision.weights=fp16"], [ZERO3, TENSOR]),
    (True, ["adapter.kind=qlora"], [ZERO3]),
    (True, ["adapter.quantize=int8"], [TENSOR]),
    (False, ["memory.offload=optimizer"], [ZERO1, ZERO3, TENSOR]),
    (False, ["train.freeze=[layers.0, norm]"], [ZERO3, TENSOR]),
    (False, ["train.neftune_noise_alpha=5"], [DATA, TENSOR]),
    (True, ["adapter.lora_dropout=0.3"], [ZERO3, TENSOR]),
    (True, ["adapter.modules_to_save=[embed_tokens]"], [ZERO3, TENSOR]),
    (False, ["optimizer.name=muon"], [ZERO1, ZERO3]),
    (False, ["optimizer.name=adafactor"], [ZERO1, ZERO3]),
    (False, ["optimizer.name=adamw_8bit"], [ZERO1, ZERO3]),
    (False, ["data.streaming=true", "data.streaming_window=4"], [ZERO3, TENSOR]),
)


def test_options(case):
    mesh_models(case)
    for adapter, options, meshes in OPTIONS:
        recipe = case.recipe(model="even", adapter=adapter)
        if "data.streaming=true" in options:
            text = (case.folder / recipe).read_text()
            (case.folder / recipe).write_text(text.replace(", num_epochs: 3", ""))
        common = ["optimizer.learning_rate=3e-3", *options]
        train(case, recipe, "one", *common)
        for mesh in meshes:
            train(case, recipe, "mesh", *common, *mesh)
            for ours, theirs in zip(losses(case, "mesh"), losses(case, "one"), strict=True):
                assert abs(ours - theirs) <= 1e-5, (options, mesh, losses(case, "mesh"), losses(case, "one"))
    # Scales of NF4 are quantised with others in a slice; and not all models can be cut in whole blocks.
    recipe = case.recipe(model="even")
    train(case, recipe, "one", "adapter.kind=qlora")
    train(case, recipe, "mesh", "adapter.kind=qlora", *TENSOR)
    for ours, theirs in zip(losses(case, "mesh"), losses(case, "one"), strict=True):
        assert abs(ours - theirs) <= 5e-3, (losses(case, "mesh"), losses(case, "one"))
    case.fails(2, "train", case.recipe(model="uneven"), "adapter.kind=qlora", *TENSOR, "output_dir=refused", "--force",
               says=["parallel.tensor", "blocks of 64"])
    case.fails(2, "train", case.recipe(model="even", adapter=False), "optimizer.name=muon", *TENSOR, "output_dir=refused",
               "--force", says=["optimizer.name", "whole matrices"])


def test_zero(case):
    """The stages of ZeRO are handed down, and change nothing but rounding."""
    for zero in range(4):
        done = case.run("train", case.recipe(adapter=False), "parallel.data=2", f"parallel.zero={zero}", "parallel.persistence_threshold=0",
                        f"output_dir=zero-{zero}")
        assert done.returncode == 0, done.stderr
        for ours, theirs in zip(losses(case, f"zero-{zero}"), losses(case, "zero-0"), strict=True):
            assert math.isclose(ours, theirs, rel_tol=1e-5), zero
    done = case.run("train", case.recipe(), "parallel.zero=1", "output_dir=alone")
    assert done.returncode == 0 and "parallel.zero has no effect" in done.stderr, done.stderr


if __name__ == "__main__":
    sys.exit(run_tests(globals(), __doc__))
