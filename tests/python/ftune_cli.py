"""Runs the ftune binary and reads its JSON."""

import json
import subprocess
from pathlib import Path


class Ftune:
    def __init__(self, binary):
        self.binary = str(Path(binary).resolve())

    def __call__(self, *arguments, text=""):
        """→ the object that --json prints. Anything but exit status 0 is an AssertionError with its words."""
        done = self._run(arguments, text)
        assert done.returncode == 0, f"exit status {done.returncode} of: {done.args}\n{done.stdout}{done.stderr}"
        return json.loads(done.stdout)

    def error(self, *arguments, text=""):
        """→ the error that --json prints, where there must be one."""
        done = self._run(arguments, text)
        assert done.returncode != 0, f"no error of: {done.args}\n{done.stdout}{done.stderr}"
        return json.loads(done.stdout)["error"]

    def _run(self, arguments, text):
        return subprocess.run([self.binary, *map(str, arguments), "--json"], input=text, capture_output=True, text=True)


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
