"""What `ftune status`, `ftune logs` and `ftune stop` say of runs, and do to them, through the ftune binary: while they train, after a
restart, when their process was killed, and where there is no run."""

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

from cli_case import run_tests
from test_ranks import LONG, Run, free_port, logged, long_recipe

ONE = ["parallel.data=1"]


class Told(Run):
    """What it says goes to a file: nobody reads it meanwhile."""

    def __init__(self, case, *arguments, **options):
        self.said = case.folder / "said.txt"
        with open(self.said, "w") as said:
            super().__init__(case, *arguments, stderr=said, **options)

    def end(self, code):
        """→ what it said."""
        self.process.communicate(timeout=60)
        assert self.process.returncode == code, f"exit {self.process.returncode}, expected {code}: {self.said.read_text()[-3000:]}"
        self.check_nothing_left()
        return self.said.read_text()


def status(case, run="out"):
    done = case.run("status", run, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def shown(case, run="out"):
    done = case.run("status", run)
    assert done.returncode == 0, done.stderr
    return done.stdout


def begin(case, *arguments):
    run = Told(case, *long_recipe(case), *arguments)
    run.wait_for_steps()
    run.wait_for(lambda: status(case)["state"] == "running" and status(case)["step"] > 1, "a status of steps")
    return run


def state_file(case):
    return case.folder / "out" / "status.json"


def test_one_rank(case):
    """A run of one rank keeps its own status; it is stopped with a checkpoint, goes on, and is done."""
    run = begin(case, *ONE, "checkpoint.save_steps=50", "checkpoint.keep_last=1000")
    run.wait_for(lambda: status(case)["checkpoint"], "a checkpoint in the status")
    seen = status(case)
    logs = {line["step"]: line for line in logged(case) if line["event"] == "train"}
    assert seen["state"] == "running" and seen["attempt"] == 1 and seen["restarts"] == 0, seen
    assert seen["loss"] == logs[seen["step"]]["loss"] and seen["learning_rate"] == logs[seen["step"]]["lr"], seen
    assert seen["tokens"] == sum(line["tokens"] for step, line in logs.items() if step <= seen["step"]), seen
    assert seen["total_steps"] == LONG and seen["seconds_left"] > 0 and seen["error"] is None, seen
    assert seen["launcher"]["pid"] == run.process.pid == seen["ranks"][0]["pid"], seen
    assert [host["ranks"] for host in seen["hosts"]] == [[0]], seen
    assert seen["checkpoint"]["step"] % 50 == 0 and Path(case.folder / seen["checkpoint"]["path"]).is_dir(), seen
    text = shown(case)
    for part in ("running", f"/{LONG}", "loss", "tok/s", "left", "saved", str(run.process.pid)):
        assert part in text, (part, text)
    done = case.run("stop", "out", "--save", "--json")
    ended = json.loads(done.stdout)
    assert done.returncode == 0 and ended["state"] == "stopped" and ended["exit"] == 75, (done.stdout, done.stderr)
    assert ended["checkpoint"]["step"] == ended["step"] > seen["step"], ended
    run.end(75)
    assert status(case) == ended
    # A request that nobody has taken is not one to the run that goes on.
    (case.folder / "out" / "stop").touch()
    done = case.run("resume", "out", f"train.max_steps={ended['step'] + 3}")
    assert done.returncode == 0, done.stderr
    last = status(case)
    assert last["state"] == "done" and last["exit"] == 0 and last["step"] == ended["step"] + 3 and last["attempt"] == 2, last
    assert not (case.folder / "out" / "stop").exists()
    done = case.run("stop", "out")
    assert done.returncode == 0 and "nothing to stop" in done.stdout and "done" in done.stdout, done.stdout
    # Without its status the log tells.
    state_file(case).unlink()
    by_log = status(case)
    assert by_log["state"] == "done" and all(by_log[key] == last[key] for key in ("step", "loss", "tokens", "checkpoint")), by_log


def test_restart(case):
    """Ranks that ftune has started, and starts again."""
    run = begin(case, "launch.max_restarts=2", "checkpoint.save_steps=20")
    first = status(case)
    pids = run.processes()
    assert first["launcher"]["pid"] == run.process.pid, first
    assert [(rank["rank"], rank["pid"], rank["state"]) for rank in first["ranks"]] == [(i, pids[i], "running") for i in (0, 1)], first
    run.wait_for(lambda: status(case)["checkpoint"], "a checkpoint")
    os.kill(pids[1], signal.SIGSTOP)
    run.wait_for(lambda: status(case)["ranks"][1]["state"] == "stopped", "a rank that is stopped in the status")
    os.kill(pids[1], signal.SIGKILL)
    states = set()

    def again():
        states.add(status(case)["state"])
        seen = status(case)
        return seen["attempt"] == 2 and seen["state"] == "running" and seen["step"] > 0
    run.wait_for(again, "the second attempt in the status")
    second = status(case)
    assert states <= {"running", "restarting"} and "restarting" in states, states
    assert second["restarts"] == 1 and second["ranks"][1]["pid"] == run.processes()[1] != pids[1], second
    assert "attempt 2, 1 restart" in shown(case), shown(case)
    # A second ftune, which is refused, changes nothing.
    assert case.run("train", "long.yaml", "output_dir=out", "--force").returncode == 2
    assert status(case)["launcher"] == second["launcher"]
    done = case.run("stop", "out", "--save")
    assert done.returncode == 0 and "stopped after step" in done.stdout and "ftune resume out" in done.stdout, done.stdout
    run.end(75)
    assert status(case)["checkpoint"]["step"] == status(case)["step"]


def test_failed(case):
    """A run that fails says why; so does one that never began."""
    done = case.run("train", case.recipe(), "parallel.data=2", "output_dir=out", "optimizer.learning_rate=1e30")
    seen = status(case)
    assert done.returncode == 7 == seen["exit"] == seen["error"]["exit"] and seen["state"] == "failed", (done.stderr, seen)
    assert seen["error"]["message"] in done.stderr and seen["error"]["message"] in shown(case), seen
    (case.folder / "wrong.jsonl").write_text('{"messages": 3}\n')
    done = case.run("train", case.recipe(), "data.train=wrong.jsonl", "output_dir=new")
    seen = status(case, "new")
    assert done.returncode == 4 == seen["exit"] and seen["state"] == "failed" and seen["step"] == 0, (done.stderr, seen)
    # Which is no run that another could replace.
    assert case.run("train", case.recipe(), "output_dir=new").returncode == 0
    assert status(case, "new")["state"] == "done"


def test_gone(case):
    """The launcher is killed: its last words are not taken for the truth, and the run goes on all the same."""
    for arguments in (ONE, []):
        shutil.rmtree(case.folder / "out", ignore_errors=True)
        run = begin(case, *arguments, "checkpoint.save_steps=5")
        run.wait_for(lambda: status(case)["checkpoint"], "a checkpoint")
        run.process.kill()
        run.process.communicate()
        run.check_nothing_left(seconds=10)
        told, seen = json.loads(state_file(case).read_text()), status(case)
        assert told["state"] == "running" and seen["state"] == "gone" and seen["last_state"] == "running", (told, seen)
        assert seen["step"] == [line["step"] for line in logged(case) if line["event"] == "train"][-1], seen
        assert "has ended without a word" in shown(case) and str(told["launcher"]["pid"]) in shown(case), shown(case)
        done = case.run("stop", "out")
        assert done.returncode == 0 and "nothing to stop" in done.stdout and "gone" in done.stdout, done.stdout
        # Another process has its number now.
        told["launcher"]["pid"] = os.getpid()
        state_file(case).write_text(json.dumps(told))
        assert status(case)["state"] == "gone"
        case.run("stop", "out", "--save")
        done = case.run("resume", "out", f"train.max_steps={seen['step'] + 2}")
        assert done.returncode == 0 and status(case)["state"] == "done", done.stderr
        # What a reader of a torn file finds, and of one of another program.
        for text in ("", "{\"state\": \"runn", "{\"step\": \"x\"}"):
            state_file(case).write_text(text)
            assert status(case)["state"] == "done", text


def test_stop_at_once(case):
    """No checkpoint is written, and no process is left; also where the ranks could not do anything any more."""
    for arguments in (ONE, []):
        shutil.rmtree(case.folder / "out", ignore_errors=True)
        run = begin(case, *arguments)
        if not arguments:
            os.kill(run.rank(1), signal.SIGSTOP)
        done = case.run("stop", "out", "--json")
        ended = json.loads(done.stdout)
        assert done.returncode == 0 and ended["state"] == "stopped" and ended["exit"] == 143, (done.stdout, done.stderr)
        assert ended["checkpoint"] is None and not list((case.folder / "out").glob("checkpoints/step-*")), ended
        run.end(143)
        assert not (case.folder / "out" / "stop").exists()


def test_stop_by_file(case):
    """As from a host that only sees the folder."""
    for arguments in (ONE, []):
        shutil.rmtree(case.folder / "out", ignore_errors=True)
        run = begin(case, *arguments)
        (case.folder / "out" / "stop").touch()
        run.end(75)
        assert status(case)["checkpoint"]["step"] == status(case)["step"] > 0 and not (case.folder / "out" / "stop").exists()


def test_stop_in_vain(case):
    """The launcher stands still."""
    run = begin(case, "launch.heartbeat_timeout=60s")
    run.process.send_signal(signal.SIGSTOP)
    case.fails(6, "stop", "out", "--timeout", "300ms", says=["has not ended within 300ms", "--timeout"])
    assert not (case.folder / "out" / "stop").exists()
    run.process.send_signal(signal.SIGCONT)
    step = status(case)["step"]
    run.wait_for(lambda: status(case)["step"] > step, "more steps")
    assert case.run("stop", "out").returncode == 0
    run.end(143)
    case.fails(2, "stop", "out", "--timeout", "soon", says=["--timeout", "soon"])


def text_of(case, attempt, rank):
    return (case.folder / "out" / "ranks" / f"attempt-{attempt}" / f"rank-{rank}.log").read_bytes().decode().replace("\r\n", "\n")


def test_logs(case):
    """Of one rank, of all, of an attempt that is over; and followed over a restart until the run ends."""
    run = begin(case, "launch.max_restarts=2", "checkpoint.save_steps=20", "data.train=chats.jsonl")
    run.wait_for(lambda: status(case)["checkpoint"], "a checkpoint")
    follow = [subprocess.Popen([case.ftune, "logs", "out", "-f", *words], cwd=case.folder, text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=case.environment())
              for words in ([], ["--rank", "all"], ["--attempt", "1", "--rank", "1"])]
    os.kill(run.rank(1), signal.SIGKILL)
    run.wait_for(lambda: status(case)["attempt"] == 2 and status(case)["state"] == "running", "the second attempt")
    out, err = follow[2].communicate(timeout=60)
    assert follow[2].returncode == 0 and out == text_of(case, 1, 1) and "SIGKILL" in out, (out, err)
    assert case.run("stop", "out", "--save").returncode == 0
    run.end(75)
    out, err = follow[0].communicate(timeout=60)
    assert follow[0].returncode == 0 and err == "attempt 2:\n", err
    assert out == text_of(case, 1, 0) + text_of(case, 2, 0), (out[-2000:], text_of(case, 2, 0)[-2000:])
    everything, err = follow[1].communicate(timeout=60)
    for rank in (0, 1):
        start = f"[rank {rank}] "
        ours = "".join(line.removeprefix(start) + "\n" for line in everything.splitlines() if line.startswith(start))
        assert ours == text_of(case, 1, rank) + text_of(case, 2, rank), (rank, ours[-2000:])
    assert case.run("logs", "out").stdout == text_of(case, 2, 0)
    assert case.run("logs", "out", "--rank", "1", "--attempt", "1").stdout == text_of(case, 1, 1)
    assert case.run("logs", "out", "-f").stdout == text_of(case, 2, 0)
    case.fails(2, "logs", "out", "--rank", "7", says=["--rank", "7", "0, 1"])
    case.fails(2, "logs", "out", "--rank", "first", says=["--rank", "first"])
    case.fails(2, "logs", "out", "--attempt", "3", says=["no logs of attempt 3"])
    done = case.run("logs", "out", "--json")
    assert done.returncode == 2 and json.loads(done.stdout)["error"]["key"] == "--json", done.stdout


def test_no_run(case):
    """A folder without a run, no folder, a checkpoint, a server that is none; logs that no rank has."""
    (case.folder / "empty").mkdir()
    for command in ("status", "logs", "stop"):
        case.fails(2, command, "empty", says=["there is no run in this folder", "empty"])
        case.fails(2, command, "nowhere", says=["there is no such folder", "nowhere"])
    case.fails(2, "status", f"localhost:{free_port()}", says=["no run can be asked there"])
    case.fails(2, "status", "localhost:0", says=["there is no such folder"])
    assert case.run("train", case.recipe(), "output_dir=out").returncode == 0
    case.fails(2, "status", "out/checkpoints/step-00000003", says=["this is a checkpoint, not a run"])
    case.fails(2, "logs", "out", says=["no logs of ranks"])


def test_heartbeat(case):
    """A status is told anew while nothing changes."""
    run = begin(case)
    os.kill(run.rank(0), signal.SIGSTOP)
    run.wait_for(lambda: status(case)["ranks"][0]["state"] == "stopped", "the stop in the status")
    first = status(case)["updated"]
    run.wait_for(lambda: status(case)["updated"] > first, "another status", 30)
    os.kill(run.rank(0), signal.SIGCONT)
    assert case.run("stop", "out").returncode == 0
    run.end(143)
    left = [path.name for path in (case.folder / "out").iterdir() if path.name.startswith(".")]
    assert not left, left
    assert time.time() - status(case)["updated"] < 60


if __name__ == "__main__":
    raise SystemExit(run_tests(globals(), __doc__))
