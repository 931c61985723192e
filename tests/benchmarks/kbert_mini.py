"""Makes kbert-mini, a small encoder of sentences, and scores it.

Distils all-MiniLM-L6-v2 (Apache-2.0): the student keeps some of its blocks,
its commonest word pieces and, of their table, the directions of the highest
variance; then it learns the teacher's vectors of sentences. In float16 it
takes under 12 MB. Its checkpoint is of family "electra", whose tables are
narrower than the hidden states.

    python tests/benchmarks/kbert_mini.py --teacher DIRECTORY --output out/mini

takes about an hour on two CPU cores. STS-B's dev sentences, on which it is
scored, are not among those it learns from; scores are never looked at.
"""

import argparse
import csv
import itertools
import json
import re
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import keras
import numpy as np

import kbert

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
MAX_LENGTH = 64  # tokens; of sentences, 99 % are shorter


def sentences_of(data):
    """Yield the sentences to learn from, some of them more than once."""
    for row in csv.reader(open(data / "stsb/stsb-en-train.csv")):
        yield from row[:2]
    for name in ("dev", "test"):
        with open(data / f"snli/snli_{name}.tsv") as file:
            for row in itertools.islice(csv.reader(file, "excel-tab"), 1, None):
                yield from row[:2]
    for name in ("corpus", "queries"):
        for line in open(data / f"scifact/{name}.jsonl"):
            row = json.loads(line)
            yield from (
                (row["title"], *kbert.data.split_sentences(row["text"]))
                if "title" in row
                else (row["text"],)
            )
    squad = json.load(open(data / "squad2/dev-v2.0.half.json"))["data"]
    for paragraph in itertools.chain(*(a["paragraphs"] for a in squad)):
        yield from kbert.data.split_sentences(paragraph["context"])
        yield from (question["question"] for question in paragraph["qas"])
    for name in ("neg", "pos"):
        path = data / f"sentence_polarity/rt-polarity.{name}"
        yield from path.read_text("latin-1").split("\n")
    for folder in ("wikipedia", "movie_reviews", "speeches", "gutenberg"):
        for path in sorted((data / "pretrain" / folder).glob("*.txt")):
            if path.name.startswith("README"):
                continue
            for line in open(path, encoding="utf-8"):
                yield from kbert.data.split_sentences(line)


def read_sentences(data):
    """Return the sentences of use, each once, none of STS-B's dev set."""
    left_out = set()
    for row in csv.reader(open(data / "stsb/stsb-en-dev.csv")):
        left_out.update(text.strip().lower() for text in row[:2])
    texts = {}
    for text in sentences_of(data):
        text = re.sub(r"\s+", " ", text).strip()
        if 10 <= len(text) <= 400 and text.lower() not in left_out:
            texts[text] = None
    return list(texts)


def smaller_vocabulary(tokenizer, texts, size):
    """Return ids of the pieces to keep: specials, letters, commonest."""
    counts = Counter()
    encoded = tokenizer.encode_ids(texts)
    ids, numbers = np.unique(encoded.ids, return_counts=True)
    counts.update(dict(zip(ids.tolist(), numbers.tolist(), strict=True)))
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    specials = set(tokenizer.special_token_ids)

    def rank(item):
        token, id_ = item
        bare = token.removeprefix("##")
        # Single characters keep words from becoming unknown.
        is_letter = len(bare) == 1 and ord(bare) < 0x250
        return (id_ not in specials, not is_letter, -counts[id_], id_)

    kept = sorted(vocabulary, key=rank)[:size]
    return sorted(id_ for _, id_ in kept)


def build_student(teacher, tokenizer, kept, blocks, width):
    """Return a student that starts from parts of its teacher."""
    config = replace(
        kbert.encoder_config(teacher),
        vocab_size=len(kept),
        num_layers=len(blocks),
        embedding_size=width,
        has_pooler=False,
        family="electra",
    )
    student = kbert.build_encoder(config)
    ours, theirs = (x.get_layer("embedding") for x in (student, teacher))
    table = np.asarray(theirs.token.embeddings)[kept]
    # Directions in which the token vectors of running text vary most.
    _, _, directions = np.linalg.svd(table - table.mean(0), full_matrices=False)
    basis = directions[:width].T
    ours.token.embeddings.assign(table @ basis)
    for name in ("position", "segment"):
        rows = np.asarray(getattr(theirs, name).embeddings)
        getattr(ours, name).embeddings.assign(rows @ basis)
    ours.projection.kernel.assign(basis.T)
    for number, block in enumerate(blocks):
        student.get_layer(f"encoder_block_{number}").set_weights(
            teacher.get_layer(f"encoder_block_{block}").get_weights()
        )
    tokens = tokenizer.get_vocab()
    names = {id_: token for token, id_ in tokens.items()}
    return student, kbert.Tokenizer.from_vocab([names[i] for i in kept])


def vectors(encoder, tokenizer, texts, show_progress=False):
    """Return the vectors (N, H) of texts, normalised means."""
    embed = kbert.pipelines.Embedder(
        kbert.build_sentence_encoder(encoder), tokenizer, max_length=128
    )
    return embed.encode(texts, show_progress=show_progress)


def spearman(encoder, tokenizer, data):
    """Return Spearman's correlation on STS-B's dev set."""
    from scipy.stats import spearmanr

    rows = list(csv.reader(open(data / "stsb/stsb-en-dev.csv")))
    first, second = (
        vectors(encoder, tokenizer, [row[i] for row in rows]) for i in (0, 1)
    )
    gold = [float(row[2]) for row in rows]
    return spearmanr((first * second).sum(1), gold).statistic


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--teacher", required=True, help="directory of all-MiniLM-L6-v2")
    add("--data", type=Path, default=DATA)
    add("--output", type=Path, required=True)
    add("--cache", type=Path, default=Path("out/kbert_mini"))
    add("--blocks", type=int, nargs="+", default=[1, 4])
    add("--vocab-size", type=int, default=15000)
    add("--width", type=int, default=128)
    add("--epochs", type=int, default=4)
    add("--batch-size", type=int, default=64)
    add("--learning-rate", type=float, default=5e-4)
    add("--sentences", type=int, help="learn from fewer")
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    args.cache.mkdir(parents=True, exist_ok=True)

    tokenizer = kbert.Tokenizer.from_pretrained(args.teacher)
    teacher = kbert.load_encoder(args.teacher)
    texts = read_sentences(args.data)
    np.random.default_rng(0).shuffle(texts)
    texts = texts[: args.sentences]
    cached = args.cache / f"vectors_{len(texts)}.npy"
    if not cached.exists():
        start = time.perf_counter()
        np.save(
            cached, vectors(teacher, tokenizer, texts, True).astype("float16")
        )
        print(f"teacher: {time.perf_counter() - start:.0f} s", flush=True)
    labels = np.load(cached).astype("float32")
    kept = smaller_vocabulary(tokenizer, texts, args.vocab_size)
    student, small = build_student(
        teacher, tokenizer, kept, args.blocks, args.width
    )
    print(f"{len(texts)} sentences, {student.count_params():,} parameters")

    keras.config.set_dtype_policy("mixed_bfloat16")
    trained = kbert.build_encoder(kbert.encoder_config(student))
    keras.config.set_dtype_policy("float32")
    trained.set_weights(student.get_weights())
    model = kbert.build_sentence_encoder(trained)
    batches = kbert.data.classification_dataset(
        texts,
        labels,
        tokenizer=small,
        batch_size=args.batch_size,
        max_length=MAX_LENGTH,
        shuffle=True,
    )
    model.compile(
        kbert.optimizers.adamw(
            args.learning_rate, train_steps=args.epochs * len(batches)
        ),
        # One minus the cosine of the two vectors, as both have length 1.
        keras.losses.CosineSimilarity(),
        jit_compile=False,
    )
    started = spearman(student, small, args.data)
    scores = {"before": started}
    log = keras.callbacks.CSVLogger(args.cache / "log.csv")
    start = time.perf_counter()
    model.fit(
        batches, epochs=args.epochs, verbose=2, shuffle=False, callbacks=[log]
    )
    seconds = time.perf_counter() - start
    student.set_weights(trained.get_weights())
    kbert.save_pretrained(student, args.output, small, dtype="float16")
    print(f"trained in {seconds:.0f} s")
    scores["after"] = spearman(student, small, args.data)
    scores["teacher"] = spearman(teacher, tokenizer, args.data)
    for name, score in scores.items():
        print(f"STS-B dev Spearman, {name}: {score:.4f}")


if __name__ == "__main__":
    main()
