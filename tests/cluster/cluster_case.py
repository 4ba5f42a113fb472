"""What the tests on a cluster share."""

import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "python"))

import cli_case
from cluster import Cluster, unavailable


def cluster_of(case, count, share=(), **options):
    """A Cluster whose nodes share the test's folder, and that of the binary."""
    return Cluster(count, case.folder.with_name(f"{case.folder.name}-cluster"), tools=Path(case.ftune).parent / "tests",
                   share=[case.folder.resolve(), Path(case.ftune).parent, *share], **options)


def wait_until(condition, what, seconds=60):
    """→ what `condition` gives once that is true. The time only ends a hang."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, f"not after {seconds} s: {what}"
        time.sleep(0.05)
    return found


def main(module, doc, slurm=False):
    """Runs a module's tests; exit status 77, which CTest counts as skipped, where there can be no cluster."""
    if missing := unavailable(slurm):
        print(f"skipped: {missing}")
        sys.exit(77)
    sys.exit(cli_case.run_tests(module, doc))
