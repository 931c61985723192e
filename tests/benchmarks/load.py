"""Loading time and memory beside transformers' `from_pretrained`.

A BERT-base checkpoint (110 M parameters, 438 MB) of random weights is written
once; each load is a process of its own, and the two take turns.

    python tests/benchmarks/load.py

needs `pip install -e .[parity]`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def peak_mib(reset=False):
    """Peak resident memory of this process since the last reset (Linux)."""
    if reset:  # `ru_maxrss` would start at the parent's peak
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def child(peer, source):
    if peer == "kbert":
        import keras  # noqa: F401
        import tensorflow as tf

        import kbert

        tf.zeros(1)  # TensorFlow starts its runtime at the first operation
        before, start = peak_mib(reset=True), time.perf_counter()
        model = kbert.load_encoder(source)
        count = model.count_params()
    else:
        import transformers

        transformers.BertModel  # noqa: B018 (imported on access)
        before, start = peak_mib(reset=True), time.perf_counter()
        model = transformers.BertModel.from_pretrained(source)
        # Its tensors are views of the file until they are read.
        count = sum(
            int(p.detach().abs().sum() >= 0) * p.numel()
            for p in model.parameters()
        )
    seconds = time.perf_counter() - start
    result = {"s": seconds, "mib": peak_mib() - before, "parameters": count}
    print("RESULT " + json.dumps(result), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", nargs=2)
    args = parser.parse_args()
    if args.child:
        child(*args.child)
        return
    with tempfile.TemporaryDirectory() as folder:
        import transformers

        config = transformers.BertConfig()
        transformers.BertModel(config).save_pretrained(folder)
        size = os.path.getsize(f"{folder}/model.safetensors") / 2**20
        results = {"kbert": [], "transformers": []}
        for _ in range(args.rounds):
            for peer, runs in results.items():
                command = [sys.executable, __file__, "--child", peer, folder]
                done = subprocess.run(command, capture_output=True, text=True)
                line = done.stdout.rpartition("RESULT ")[2]
                runs.append(json.loads(line))
    print(f"\n    python tests/benchmarks/load.py --rounds {args.rounds}\n")
    print("| | seconds | peak memory grows by, times the file |")
    print("|---|---|---|")
    for peer, runs in results.items():
        seconds = statistics.median(run["s"] for run in runs)
        growth = statistics.median(run["mib"] for run in runs) / size
        print(f"| {peer} | {seconds:.2f} | {growth:.2f} |")


if __name__ == "__main__":
    main()
