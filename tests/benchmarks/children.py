"""What the benchmarks share: runs in processes of their own, and medians."""

import json
import os
import statistics
import subprocess
import sys


def report(result):
    """Hand a child's result, a dict of numbers, to its parent."""
    print("RESULT " + json.dumps(result), flush=True)


def run(script, *arguments):
    """Run a script in a process of its own; returns what it reported."""
    done = subprocess.run(
        [sys.executable, script, *map(str, arguments)],
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "2"},
        capture_output=True,
        text=True,
    )
    for line in done.stdout.splitlines():
        if line.startswith("RESULT "):
            return json.loads(line.removeprefix("RESULT "))
    raise RuntimeError(f"{arguments} gave no result:\n{done.stderr[-3000:]}")


def medians(runs):
    """Median of each key over runs."""
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}
