"""A run that is called on a node of a cluster, over SSH and without a shared disk."""

import subprocess

from run_files import RunFiles

OUT = "/root/out"  # a folder of each node's own
CACHE = "/root/cache"  # likewise, of ftune


class HostRun(RunFiles):
    def __init__(self, cluster, case, command, *words, node="node1", out=OUT, environment=None, through=()):
        """`command` of ftune, with `words` beside the run's folder, which is `out`; `through`: a command that calls another."""
        super().__init__(cluster.path(node, out))
        self.cluster, self.case, self.node = cluster, case, node
        folder = case.folder.resolve()
        called = ["resume", out, *words] if command == "resume" else [command, *words, f"output_dir={out}"]
        self.said = folder / "said.txt"
        with open(self.said, "w") as said:
            self.process = cluster.popen(
                node, [*through, case.ftune, *called], cwd=folder, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
                environment={"XDG_CACHE_HOME": CACHE, "HOME": "/root", **(environment or {})})

    def await_step(self, step):
        def check_alive():
            assert self.process.poll() is None, f"it has ended: {self.said.read_text()}"
        super().await_step(step, check_alive)

    def end(self, code, seconds=300):
        """Waits for its end; → what it said."""
        assert self.process.wait(seconds) == code, (self.process.returncode, self.said.read_text()[-3000:])
        return self.said.read_text()
