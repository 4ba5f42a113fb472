"""What becomes of a run between two attempts, and whether there is another one, through the ftune binary: signals that come
meanwhile, failures in step after step, and hosts that seem to be back. Their ssh is a script that says what the test needs."""

import json
import os
import shutil
import signal

from cli_case import run_tests
from test_ranks import LONG, long_recipe
from test_status import Told, begin, status

UNREACHABLE = "echo 'no route to host' >&2; exit 255"
NO_FTUNE = "case \"$command\" in *ftune*) echo 'sh: ftune: not found' >&2; exit 127;; *) eval \"$command\";; esac"


def with_ssh(case, first, later):
    """→ the environment and the arguments of a run on this host and another one: what ssh does at first, to connect, and
    from then on; and the file with a line for each of its calls."""
    calls = case.folder / "ssh-calls"
    shutil.rmtree(case.folder / "bin", ignore_errors=True)
    (case.folder / "bin").mkdir()
    ssh = case.folder / "bin" / "ssh"
    ssh.write_text(f"#!/bin/sh\nfor command; do :; done\necho call >> {calls.resolve()}\n"
                   f"[ $(wc -l < {calls.resolve()}) -gt 1 ] || {{ {first}; }}\n{later}\n")
    ssh.chmod(0o755)
    return {"PATH": f"{ssh.parent.resolve()}:{os.environ['PATH']}"}, ["launch.hosts=[localhost, other]", "launch.min_hosts=1"], calls


def count(file):
    return len(file.read_text().splitlines()) if file.exists() else 0


def lines(case, event):
    log = case.folder / "out" / "log.jsonl"
    return [line for line in map(json.loads, log.read_text().split("\n")[:-1]) if line["event"] == event] if log.exists() else []


def test_more_hosts_than_there_are(case):
    case.fails(2, "train", case.recipe(), "output_dir=out", "launch.hosts=[localhost]", "launch.min_hosts=3",
               says=["launch.min_hosts", "found 3", "at most 1"])


def test_host_without_ftune(case):
    """A host that can be reached, and cannot run ranks, does not have those that train end."""
    environment, hosts, calls = with_ssh(case, UNREACHABLE, NO_FTUNE)
    run = Told(case, case.recipe(adapter=False), *hosts, f"train.max_steps={LONG}", f"train.num_epochs={LONG}", environment=environment)
    run.wait_for(lambda: count(calls) > 1, "a look whether the host is back")
    run.wait_for_steps(run.steps() + 50)
    run.process.send_signal(signal.SIGTERM)
    said = run.end(75)
    assert "attempt 2" not in said and not lines(case, "restart"), said


def test_host_is_back_at_the_end(case):
    """A run that is done is not started again with a host that comes when its ranks are about to end."""
    log = (case.folder / "out" / "log.jsonl").resolve()
    late = f"while ! grep -q '\"event\":\"end\"' {log}; do sleep 0.05; done; eval \"$command\""
    environment, hosts, calls = with_ssh(case, UNREACHABLE, late)
    # The ranks end when the hook has.
    run = Told(case, case.recipe(adapter=False), *hosts, "train.max_steps=30", f"train.num_epochs={LONG}",
               "log.hook=cat > /dev/null; sleep 4", environment=environment)
    said = run.end(0)
    assert "attempt 2" not in said, said
    assert count(calls) == 2, f"{count(calls)} calls of ssh: one to connect, one to look whether the host is back"


def stop_between(case, end, *arguments):
    """→ how a run ended that `end` has ended while it waited for its second attempt; none where that came too late."""
    shutil.rmtree(case.folder / "out", ignore_errors=True)
    run = begin(case, "launch.max_restarts=2", *arguments)
    if arguments:
        run.wait_for(lambda: status(case)["checkpoint"], "a checkpoint")
    os.kill(run.rank(1), signal.SIGKILL)
    run.wait_for(lambda: json.loads((case.folder / "out/status.json").read_text())["state"] == "restarting", "a restart")
    end(run)
    run.process.wait(timeout=60)
    said = run.end(run.process.returncode)
    if "attempt 2" in said:
        return None
    assert "stopped before restart 1 of 2: error: rank 1" in said, said
    assert status(case)["state"] == "stopped", status(case)
    return run.process.returncode


def test_stopped_between_attempts(case):
    """What ends a run that waits ends it as it would a run that trains."""
    def term(run):
        run.process.send_signal(signal.SIGTERM)

    def stop(run):
        (case.folder / "request").write_text("now\n")
        (case.folder / "request").rename(run.folder / "stop")
    for end, arguments, code in [(term, ["checkpoint.save_steps=20"], 75), (term, [], 143), (stop, ["checkpoint.save_steps=20"], 143)]:
        codes = (stop_between(case, end, *arguments) for _ in range(5))
        assert next(filter(None, codes), None) == code


def test_failures_in_other_steps(case):
    """A run that comes further each time is started again, however seldom its steps are logged."""
    run = Told(case, *long_recipe(case), "launch.max_restarts=4", "log.every=10000", "checkpoint.save_steps=10")

    def trains(attempt, beyond):
        seen = json.loads((case.folder / "out/status.json").read_text()) if (case.folder / "out/status.json").exists() else {}
        steps = [rank.get("step") or 0 for rank in seen.get("ranks", [])]
        return seen.get("attempt") == attempt and len(steps) == 2 and min(steps) > beyond and steps
    failed = 0
    for attempt in (1, 2, 3):
        run.wait_for(lambda: trains(attempt, failed + 15), f"steps of attempt {attempt}")
        os.kill(run.rank(1), signal.SIGKILL)
        restart = run.wait_for(lambda: lines(case, "restart")[attempt - 1:], f"restart {attempt}")[0]
        assert restart["failed_step"] > failed + 10 and restart["step"] <= restart["failed_step"], restart
        failed = restart["failed_step"]
    run.wait_for(lambda: trains(4, failed), "steps of attempt 4")
    run.process.send_signal(signal.SIGTERM)
    run.end(75)


if __name__ == "__main__":
    raise SystemExit(run_tests(globals(), __doc__))
