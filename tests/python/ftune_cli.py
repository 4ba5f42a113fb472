"""Runs the ftune binary and reads its JSON."""

import json
import subprocess
from pathlib import Path


class Ftune:
    def __init__(self, binary):
        self.binary = str(Path(binary).resolve())

    def __call__(self, *arguments, text=""):
        """→ the object that --json prints. Anything but exit status 0 is an AssertionError with its words."""
        command = [self.binary, *map(str, arguments), "--json"]
        done = subprocess.run(command, input=text, capture_output=True, text=True)
        assert done.returncode == 0, (
            f"exit status {done.returncode} of: {' '.join(command)}\n{done.stdout}{done.stderr}")
        return json.loads(done.stdout)


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
