"""Does a pretrained checkpoint help? The example's run, its curve, and a task.

Trains BERT-mini from scratch with examples/pretrain.py on Wikipedia articles,
books and speeches, draws the curve of its log, then fine-tunes the checkpoint
and a random initialisation on sentence_polarity, three seeds each.

    python tests/benchmarks/pretrain_long.py --steps 10000

takes about an hour on two CPU cores, and goes on where it was when it is
stopped and started again. It needs `pip install -e .[docs]` (matplotlib); what
it does not know goes to the example, such as `--policy float32`.
"""

import argparse
import csv
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[2]
SOURCES = ("wikipedia", "gutenberg", "speeches")
TEST, EPOCHS, RATE = 1000, 3, 1e-4


def pretrain(args, others):
    """Run the example; return the seconds that it took."""
    start = time.perf_counter()
    subprocess.run(
        [
            *(sys.executable, ROOT / "examples" / "pretrain.py"),
            *("--data", *(Path(args.data) / source for source in SOURCES)),
            *("--output", args.output, "--steps", str(args.steps)),
            *("--round", str(args.round)),
            *("--preset", "mini", "--no-nsp", "--vocab-size", "8000"),
            *("--batch-size", "32", "--learning-rate", "1e-3"),
            *("--policy", "mixed_bfloat16", *others),
        ],
        check=True,
    )
    return time.perf_counter() - start


def draw(log, path, per_round):
    """Draw the curves of a log; return its last row."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    with open(log, newline="") as file:
        rows = {row["epoch"]: row for row in csv.DictReader(file)}
    rows = [{key: float(row[key]) for key in row} for row in rows.values()]
    # A dict output puts the head's name before it.
    prefix = "mlm_" if "mlm_loss" in rows[0] else ""
    x = [(row["epoch"] + 1) * per_round for row in rows]
    figure, left = pyplot.subplots(figsize=(6, 3.2), layout="constrained")
    for name, label in (("", "training"), ("val_", "held out")):
        y = [row[f"{name}{prefix}loss"] for row in rows]
        left.plot(x, y, label=f"loss, {label}")
    right = left.twinx()
    y = [row[f"val_{prefix}accuracy"] for row in rows]
    right.plot(x, y, color="tab:green", label="accuracy, held out")
    left.set(xlabel="steps", ylabel="masked-token loss, nats")
    right.set(ylabel="masked tokens right", ylim=(0, None))
    figure.legend(loc="outside upper center", ncols=3, frameon=False)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=100)
    return rows[-1]


def read_polarity(folder):
    texts, labels = [], []
    for label, name in enumerate(("rt-polarity.neg", "rt-polarity.pos")):
        lines = (Path(folder) / name).read_text("latin-1").split("\n")
        lines = [line for line in lines if line]
        texts += lines
        labels += [label] * len(lines)
    order = np.random.default_rng(0).permutation(len(texts))
    texts, labels = [texts[i] for i in order], np.array(labels)[order]
    return (texts[:-TEST], labels[:-TEST]), (texts[-TEST:], labels[-TEST:])


def accuracy(directory, is_pretrained, train, test, seed):
    """Fine-tune from a checkpoint, or from its config alone."""
    import keras

    import kbert

    keras.utils.set_random_seed(seed)
    tokenizer = kbert.Tokenizer.from_pretrained(directory)
    encoder = kbert.load_encoder(directory)
    if not is_pretrained:
        encoder = kbert.build_encoder(kbert.encoder_config(encoder))
    model = kbert.build_classifier(encoder, num_classes=2)
    options = dict(tokenizer=tokenizer, batch_size=32, max_length=128)
    make = kbert.data.classification_dataset
    batches = make(*train, **options, shuffle=True, seed=seed)
    model.compile(
        kbert.optimizers.adamw(RATE, train_steps=EPOCHS * len(batches)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,
    )
    model.fit(batches, epochs=EPOCHS, verbose=0, shuffle=False)
    return model.evaluate(make(*test, **options), verbose=0)[1]


def main():
    shared = ROOT.parent / "shared" / "data"
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--data", default=str(shared / "pretrain"))
    add("--polarity", default=str(shared / "sentence_polarity"))
    add("--output", default="out/pretrain_long")
    add("--picture", default=str(ROOT / "docs/images/pretraining.png"))
    add("--steps", type=int, default=10000)
    add("--round", type=int, default=200)
    add("--seeds", type=int, default=3)
    add("--texts", type=int, help="to fine-tune on; all if left out")
    args, others = parser.parse_known_args()
    output = Path(args.output)
    seconds = pretrain(args, others)
    last = draw(output / "log.csv", Path(args.picture), args.round)
    print(f"\n{seconds / 60:.0f} minutes; last round:", last)
    train, test = read_polarity(args.polarity)
    train = [part[: args.texts] for part in train]
    print("\n| start | accuracy, each seed | mean |\n| --- | --- | --- |")
    for name, is_pretrained in (("pretrained", True), ("random", False)):
        scores = [
            accuracy(output / "model", is_pretrained, train, test, seed)
            for seed in range(args.seeds)
        ]
        listed = ", ".join(f"{score:.3f}" for score in scores)
        print(f"| {name} | {listed} | {statistics.mean(scores):.3f} |")


if __name__ == "__main__":
    main()
