"""Loading time and memory beside transformers' `from_pretrained`.

A BERT-base checkpoint (110 M parameters, 438 MB) of random weights is written
once; each load is a process of its own, and the peers take turns. "kbert,
build alone" makes the same model and reads no weights: the floor of a load.

    python tests/benchmarks/load.py

needs `pip install -e .[parity]` and Linux. Keras' backend is the environment's.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import children

PEERS = ("kbert", "kbert, build alone", "transformers")


def memory_mib(field):
    """`VmHWM`, the peak since the last reset, or `VmRSS`, what is there."""
    status = Path("/proc/self/status").read_text()
    return int(status.partition(f"{field}:")[2].split()[0]) / 1024


def loader(peer, source):
    """Import what a peer needs; return what makes its model."""
    if peer == "transformers":
        import transformers

        transformers.BertModel  # noqa: B018 (imported on access)

        def load():
            model = transformers.BertModel.from_pretrained(source)
            # Its tensors are views of the file: read a number of each page.
            for parameter in model.parameters():
                parameter.detach().flatten()[::1024].sum()
            return model

        return load
    import keras

    import kbert
    from kbert.checkpoints.memory import Unwritten
    from kbert.layers.initializers import no_random_values

    keras.ops.zeros(1)  # backends start their runtime at the first operation
    if peer == "kbert":
        return lambda: kbert.load_encoder(source)

    def build():
        with no_random_values(Unwritten()):
            return kbert.build_encoder(kbert.families.BERT_BASE)

    return build


def child(peer, source):
    load = loader(peer, source)
    # `ru_maxrss` would start at the parent's peak.
    Path("/proc/self/clear_refs").write_text("5")
    before = memory_mib("VmRSS")
    result, models = {}, []
    for turn in ("first", "second"):
        start, start_cpu = time.perf_counter(), time.process_time()
        models.append(load())
        result[turn] = time.perf_counter() - start
        result[f"{turn} cpu"] = time.process_time() - start_cpu
        if turn == "first":
            result["peak"] = memory_mib("VmHWM") - before
            result["after"] = memory_mib("VmRSS") - before
    children.report(result)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
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
        results = {peer: [] for peer in PEERS}
        for _ in range(args.rounds):
            for peer, runs in results.items():
                runs.append(children.run(__file__, "--child", peer, folder))
    print(f"\n    python tests/benchmarks/load.py --rounds {args.rounds}\n")
    print(
        "| | best s | median s | median CPU s | second load: median s | "
        "CPU s | memory, times the file: peak | after |"
    )
    print("|---" * 8 + "|")
    for peer, runs in results.items():
        median = children.medians(runs)
        cells = [
            min(run["first"] for run in runs),
            *(median[k] for k in ("first", "first cpu")),
            *(median[k] for k in ("second", "second cpu")),
            *(median[k] / size for k in ("peak", "after")),
        ]
        print(f"| {peer} | " + " | ".join(f"{x:.2f}" for x in cells) + " |")


if __name__ == "__main__":
    main()
