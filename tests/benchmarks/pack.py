"""How fast short sentences train packed, in buckets and padded.

    python tests/benchmarks/pack.py --data ../shared/data

Steps of an epoch of sentence_polarity, a masked language model of 4 layers x
256 with BERT's vocabulary, fresh weights. All three ways take about the same
number of sentences a step, so that an epoch has as many steps in each. They
take turns, step by step.
"""

import argparse
import os
import time
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras

import kbert
from kbert.data import Tokenizer, masked_lm_dataset

WAYS = {
    "packed": {"pack": True},
    "buckets": {"pad_to": "bucket"},
    "padded": {"pad_to": "max"},
}


def read_texts(data):
    lines = []
    for name in ("neg", "pos"):
        path = data / "sentence_polarity" / f"rt-polarity.{name}"
        lines += path.read_text(encoding="latin-1").splitlines()
    return lines


def make_epoch(texts, tokenizer, way, args):
    options = {
        "tokenizer": tokenizer,
        "batch_size": args.batch_size,
        "max_length": args.length,
        "shuffle": True,
        **WAYS[way],
    }
    if way == "packed":
        rows = sum(
            len(weights)
            for _, _, weights in masked_lm_dataset(texts, **options)
        )
        # As many sentences a step as the other ways take.
        options["batch_size"] = round(rows * args.batch_size / len(texts))
    return masked_lm_dataset(texts, **options)


def count(batch):
    """Real tokens, and all."""
    x = batch[0]
    mask = x["sequence_ids" if "sequence_ids" in x else "padding_mask"].numpy()
    return (mask > 0).sum(), mask.size


def build_models(tokenizer, args):
    config = kbert.EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=256,
        num_layers=4,
        num_heads=4,
        intermediate_size=1024,
        max_positions=512,
    )
    models = {}
    for way in WAYS:
        model = kbert.build_masked_lm(
            kbert.build_encoder(config, dtype=args.dtype)
        )
        if way == "packed":
            model = kbert.build_packed(model)
        model.compile(
            kbert.optimizers.adamw(1e-4, train_steps=10_000),
            loss=kbert.losses.MaskedLMLoss(),
            jit_compile=False,
        )
        models[way] = model
    return models


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--dtype", default="float32")
    args = parser.parse_args()
    vocab = args.data / "vocabs" / "bert-base-uncased" / "vocab.txt"
    tokenizer = Tokenizer.from_vocab(vocab)
    texts = read_texts(args.data)
    epochs = {way: make_epoch(texts, tokenizer, way, args) for way in WAYS}
    batches = {way: list(epoch) for way, epoch in epochs.items()}
    models = build_models(tokenizer, args)
    for way, model in models.items():
        for batch in batches[way][-3:]:  # traces
            model.train_on_batch(*batch)
    seconds = {way: [] for way in WAYS}
    core_seconds = {way: [] for way in WAYS}
    for step in range(args.steps):
        for way, model in models.items():
            start, cpu = time.perf_counter(), time.process_time()
            model.train_on_batch(*batches[way][step])
            seconds[way].append(time.perf_counter() - start)
            core_seconds[way].append(time.process_time() - cpu)
    print(
        f"{len(texts)} sentences, {args.length} tokens at most, {args.dtype}, "
        f"{keras.backend.backend()}, {args.steps} steps\n"
    )
    print(
        "|  | steps an epoch | real tokens | real tokens/s | packed / it "
        "| real tokens/s of a core | packed / it |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    rates, core_rates = {}, {}
    for way, epoch in batches.items():
        real, total = map(sum, zip(*map(count, epoch), strict=True))
        timed = sum(count(batch)[0] for batch in epoch[: args.steps])
        rates[way] = timed / sum(seconds[way])
        core_rates[way] = timed / sum(core_seconds[way])
        print(
            f"| {way} | {len(epoch)} | {real / total:.1%} "
            f"| {rates[way]:,.0f} | {rates['packed'] / rates[way]:.2f} "
            f"| {core_rates[way]:,.0f} "
            f"| {core_rates['packed'] / core_rates[way]:.2f} |"
        )


if __name__ == "__main__":
    main()
