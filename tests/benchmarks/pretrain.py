"""Pretraining speed and loss beside transformers and KerasHub.

A BERT of 4 layers x 256 from scratch, on Wikipedia articles, books and
speeches: batches of 32 x 128 tokens, BERT's vocabulary, masked words alone.
kbert and transformers (`BertForMaskedLM`, `DataCollatorForLanguageModeling`,
torch's AdamW with kbert's exclusions) take the same sequences, steps and
schedule, and are scored on the same held-out sequences with the same masks.
KerasHub's `BertMaskedLM`, set to the 20 masks that 128 tokens need, is timed
alone. Each run is a process of its own; the peers take turns. Speed is the
median over windows of 10 steps, the first 10 steps left out.

    python tests/benchmarks/pretrain.py --steps 200

needs `pip install -e .[parity]`.
"""

import argparse
import json
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import children
import numpy as np

BATCH, LENGTH, MASKS, SEED = 32, 128, 20, 0
LAYERS, HIDDEN, HEADS, INTERMEDIATE = 4, 256, 4, 1024
WARM_UP, WINDOW, HELD_OUT = 10, 10, 0.03
SOURCES = ("wikipedia", "gutenberg", "speeches")
RUNS = {
    "kbert": ("kbert", "float32"),
    "kbert, mixed_bfloat16": ("kbert", "mixed_bfloat16"),
    "transformers": ("transformers", "float32"),
    "transformers, bf16 autocast": ("transformers", "mixed_bfloat16"),
    "KerasHub": ("keras_hub", "float32"),
    "KerasHub, mixed_bfloat16": ("keras_hub", "mixed_bfloat16"),
}


def prepare(data, vocab, work):
    """Write documents, sequences and the masked held-out sequences."""
    import kbert

    documents = [
        document
        for source in SOURCES
        for document in kbert.data.read_documents(Path(data) / source)
    ]
    order = np.random.default_rng(SEED).permutation(len(documents))
    documents = [documents[i] for i in order]
    cut = round(HELD_OUT * len(documents))
    held_out, train = documents[:cut], documents[cut:]
    tokenizer = kbert.Tokenizer.from_vocab(vocab)
    tokenizer.save(work / "tokenizer")
    (work / "documents.json").write_text(json.dumps(train))
    for name, texts in (("train", train), ("held_out", held_out)):
        parts = masked(kbert, texts, tokenizer, pad_to="max", dupe_factor=1)
        np.savez(
            work / f"{name}.npz",
            **{
                key: np.concatenate([part[key] for part in parts])
                for key in parts[0]
            },
        )
    rows = original(np.load(work / "train.npz"))
    texts = tokenizer.backend.decode_batch([row.tolist() for row in rows])
    (work / "texts.json").write_text(json.dumps(texts))


def masked(kbert, documents, tokenizer, **options):
    batches = kbert.data.masked_lm_dataset(
        documents,
        tokenizer=tokenizer,
        batch_size=BATCH,
        max_length=LENGTH,
        seed=SEED,
        **options,
    )
    return [
        {**x, "labels": y, "weights": weights}
        for x, y, weights in batches.as_numpy_iterator()
    ]


def original(arrays):
    """Sequences as they were before masking, without padding."""
    ids = arrays["token_ids"].copy()
    row, slot = np.nonzero(arrays["weights"])
    ids[row, arrays["mask_positions"][row, slot]] = arrays["labels"][row, slot]
    lengths = arrays["padding_mask"].sum(axis=1)
    return [i[:n] for i, n in zip(ids, lengths, strict=True)]


def speed(ends, start):
    """First step, and tokens/s in windows of steps after the warm-up."""
    seconds = np.diff([start, *ends])
    steady = seconds[min(WARM_UP, len(seconds) - 1) :]
    windows = [
        steady[i : i + WINDOW].mean()
        for i in range(0, max(1, len(steady) - WINDOW + 1), WINDOW)
    ]
    return {
        "first_step_s": float(seconds[0]),
        "tokens_per_s": BATCH * LENGTH / float(np.median(windows)),
    }


def step_clock(keras):
    class Clock(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            self.start, self.ends = time.perf_counter(), []

        def on_train_batch_end(self, batch, logs=None):
            self.ends.append(time.perf_counter())

    return Clock()


def run_kbert(work, policy, steps, rate):
    import keras

    import kbert

    keras.config.set_dtype_policy(policy)
    keras.utils.set_random_seed(SEED)
    tokenizer = kbert.Tokenizer.from_pretrained(work / "tokenizer")
    train = kbert.data.masked_lm_dataset(
        json.loads((work / "documents.json").read_text()),
        tokenizer=tokenizer,
        batch_size=BATCH,
        max_length=LENGTH,
        shuffle=True,
        seed=SEED,
        pad_to="max",
        drop_remainder=True,
    )
    config = kbert.EncoderConfig(
        vocab_size=tokenizer.vocab_size,
        hidden_size=HIDDEN,
        num_layers=LAYERS,
        num_heads=HEADS,
        intermediate_size=INTERMEDIATE,
    )
    model = kbert.build_masked_lm(kbert.build_encoder(config))
    model.compile(
        kbert.optimizers.adamw(rate, train_steps=steps, warmup=0.1),
        kbert.losses.MaskedLMLoss(),
        jit_compile=False,
    )
    clock = step_clock(keras)
    model.fit(
        train.repeat(),
        steps_per_epoch=steps,
        callbacks=[clock],
        verbose=0,
        shuffle=False,
    )
    arrays = dict(np.load(work / "held_out.npz"))
    y, weights = arrays.pop("labels"), arrays.pop("weights")
    perplexity = kbert.metrics.Perplexity()
    model.compile(weighted_metrics=[perplexity], jit_compile=False)
    scores = model.evaluate(
        arrays, y, BATCH, sample_weight=weights, verbose=0, return_dict=True
    )
    return {
        **speed(clock.ends, clock.start),
        "held_out_loss": float(np.log(scores["perplexity"])),
    }


def run_transformers(work, policy, steps, rate):
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count() or 1)
    transformers.set_seed(SEED)
    tokenizer = transformers.AutoTokenizer.from_pretrained(work / "tokenizer")
    config = transformers.BertConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INTERMEDIATE,
    )
    model = transformers.BertForMaskedLM(config).train()
    decayed, others = [], []
    for name, weight in model.named_parameters():
        is_decayed = not name.endswith("bias") and "LayerNorm" not in name
        (decayed if is_decayed else others).append(weight)
    optimizer = torch.optim.AdamW(
        [
            {"params": decayed, "weight_decay": 0.01},
            {"params": others, "weight_decay": 0.0},
        ],
        lr=rate,
        eps=1e-6,
    )
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, -(-steps // 10), steps
    )
    rows = original(np.load(work / "train.npz"))
    loader = torch.utils.data.DataLoader(
        [{"input_ids": row.tolist()} for row in rows],
        batch_size=BATCH,
        shuffle=True,
        drop_last=True,
        collate_fn=transformers.DataCollatorForLanguageModeling(tokenizer),
    )

    def forward(batch):
        with torch.autocast("cpu", torch.bfloat16, enabled=policy != "float32"):
            return model(**batch)

    start, ends = time.perf_counter(), []
    while len(ends) < steps:
        for batch in loader:
            optimizer.zero_grad()
            forward(batch).loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            ends.append(time.perf_counter())
            if len(ends) == steps:
                break
    model.eval()
    arrays = {
        key: torch.from_numpy(value)
        for key, value in np.load(work / "held_out.npz").items()
    }
    total = 0.0
    for i in range(0, len(arrays["token_ids"]), BATCH):
        part = {
            key: value[i : i + BATCH].long() for key, value in arrays.items()
        }
        inputs = {
            "input_ids": part["token_ids"],
            "attention_mask": part["padding_mask"],
        }
        with torch.no_grad():
            logits = forward(inputs).logits.float()
        row, slot = part["weights"].nonzero(as_tuple=True)
        logits = logits[row, part["mask_positions"][row, slot]]
        labels = part["labels"][row, slot]
        total += torch.nn.functional.cross_entropy(
            logits, labels, reduction="sum"
        ).item()
    return {
        **speed(ends, start),
        "held_out_loss": total / float(arrays["weights"].sum()),
    }


def run_keras_hub(work, policy, steps, rate):
    import keras
    import keras_hub

    keras.config.set_dtype_policy(policy)
    keras.utils.set_random_seed(SEED)
    tokenizer = keras_hub.models.BertTokenizer(
        vocabulary=str(work / "tokenizer" / "vocab.txt"), lowercase=True
    )
    model = keras_hub.models.BertMaskedLM(
        backbone=keras_hub.models.BertBackbone(
            vocabulary_size=tokenizer.vocabulary_size(),
            num_layers=LAYERS,
            num_heads=HEADS,
            hidden_dim=HIDDEN,
            intermediate_dim=INTERMEDIATE,
        ),
        preprocessor=keras_hub.models.BertMaskedLMPreprocessor(
            tokenizer,
            sequence_length=LENGTH,
            mask_selection_rate=0.15,
            mask_selection_length=MASKS,
        ),
    )
    optimizer = keras.optimizers.AdamW(
        keras.optimizers.schedules.PolynomialDecay(rate, steps, 0.0),
        weight_decay=0.01,
        epsilon=1e-6,
        global_clipnorm=1.0,
    )
    optimizer.exclude_from_weight_decay(var_names=["bias", "gamma", "beta"])
    model.compile(
        optimizer,
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        weighted_metrics=[],
        jit_compile=False,
    )
    texts = json.loads((work / "texts.json").read_text())
    clock = step_clock(keras)
    model.fit(
        np.array(texts[: steps * BATCH], dtype=object),
        batch_size=BATCH,
        callbacks=[clock],
        verbose=0,
    )
    return speed(clock.ends, clock.start)


PEERS = {
    "kbert": run_kbert,
    "transformers": run_transformers,
    "keras_hub": run_keras_hub,
}


def child(args):
    peer, policy, work = args.child
    result = PEERS[peer](Path(work), policy, args.steps, args.rate)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    children.report({**result, "peak_mib": peak})


def measure(name, work, args):
    peer, policy = RUNS[name]
    steps = args.steps if peer != "keras_hub" else args.keras_hub_steps
    options = ("--steps", steps, "--rate", args.rate)
    return children.run(__file__, "--child", peer, policy, work, *options)


def table(results):
    """Medians over the rounds, and kbert beside each peer."""
    middle = {n: children.medians(runs) for n, runs in results.items()}
    ours = {RUNS[n][1]: run for n, run in middle.items() if "kbert" in n}
    head = ["", "tokens/s", "kbert is times as fast", "held-out loss"]
    head += ["kbert's less theirs", "first step s", "peak MiB"]
    rows = [head, ["---"] * len(head)]
    for name, run in middle.items():
        other = ours.get(RUNS[name][1], {})
        loss, faster = run.get("held_out_loss"), other.get("tokens_per_s")
        faster = faster and faster / run["tokens_per_s"]
        less = loss and other and other["held_out_loss"] - loss
        rows.append(
            [
                name,
                f"{run['tokens_per_s']:,.0f}",
                f"{faster:.2f}" if faster else "",
                f"{loss:.3f}" if loss else "",
                f"{less:+.3f}" if loss and other else "",
                f"{run['first_step_s']:.1f}",
                f"{run['peak_mib']:.0f}",
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main():
    shared = Path(__file__).parents[3] / "shared" / "data"
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--data", default=str(shared / "pretrain"))
    add("--vocab", default=str(shared / "vocabs/bert-base-uncased/vocab.txt"))
    add("--steps", type=int, default=200)
    add("--keras-hub-steps", type=int, default=60)
    add("--rate", type=float, default=5e-4, help="peak learning rate")
    add("--rounds", type=int, default=1)
    add("--runs", nargs="*", default=list(RUNS))
    add("--child", nargs=3, metavar=("PEER", "POLICY", "WORK"))
    args = parser.parse_args()
    if args.child:
        child(args)
        return
    results = {name: [] for name in args.runs}
    with tempfile.TemporaryDirectory() as work:
        prepare(args.data, args.vocab, Path(work))
        for _ in range(args.rounds):
            for name in args.runs:
                results[name].append(measure(name, work, args))
                print(name, results[name][-1], file=sys.stderr, flush=True)
    print(
        f"python tests/benchmarks/pretrain.py --steps {args.steps} "
        f"--keras-hub-steps {args.keras_hub_steps} --rate {args.rate} "
        f"--rounds {args.rounds}\n\n{table(results)}"
    )


if __name__ == "__main__":
    main()
