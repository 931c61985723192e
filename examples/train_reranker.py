"""Train a cross-encoder that sorts what semantic_search.py finds.

    python examples/train_reranker.py --output out/reranker
    python examples/semantic_search.py --reranker out/reranker

A cross-encoder reads a query and a document together. It learns from --qrels
with the relevant documents and, of those that the vectors rank first, 4 that
are not. The other arguments are those of semantic_search.py.

The default data only shows how it is done: 27 questions teach nobody to read
(nDCG@10 falls from 0.872 to 0.111; 24 s of processor time, AMD EPYC). It needs
thousands, or `--base` a cross-encoder that has seen them.
"""

import keras
from retrieval import default_encoder, make_parser, open_index, read

import kbert

NEGATIVES, BATCHES = 4, {"batch_size": 16, "max_length": 256}


def main():
    """Find hard negatives, train, save."""
    parser = make_parser("Train a re-ranker.", "help_qrels_train.tsv")
    parser.add_argument("--base", help="encoder to train; MiniLM if not given")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--output", default="out/reranker")
    args = parser.parse_args()
    keras.utils.set_random_seed(0)
    documents, queries, qrels = read(args)
    store = open_index(args, documents)
    found = store.search(list(queries.values()), 50)

    rows = []
    for (query, grades), hits in zip(qrels.items(), found, strict=True):
        wrong = [x["id"] for x in hits if grades.get(x["id"], 0) < 1]
        rows += [(queries[query], x, 1.0) for x in grades if grades[x] > 0]
        rows += [(queries[query], x, 0.0) for x in wrong[:NEGATIVES]]
    texts, keys, labels = zip(*rows, strict=True)
    print(f"{len(rows)} pairs, {labels.count(1.0)} of them relevant")
    source = args.base or default_encoder()
    tokenizer = kbert.Tokenizer.from_pretrained(source)
    dataset = kbert.data.classification_dataset(
        texts,
        labels,
        pairs=[documents[key] for key in keys],
        tokenizer=tokenizer,
        shuffle=True,
        **BATCHES,
    )
    model = kbert.build_classifier(kbert.load_encoder(source), 1)
    epochs = 1 if args.smoke else args.epochs
    model.compile(
        kbert.optimizers.adamw(5e-5, train_steps=epochs * len(dataset)),
        keras.losses.BinaryCrossentropy(from_logits=True),
    )
    model.fit(dataset, epochs=epochs, verbose=2, shuffle=False)
    kbert.save_pretrained(model, args.output, tokenizer=tokenizer)
    print(f"Saved to {args.output}: semantic_search.py --reranker reads it.")


if __name__ == "__main__":
    main()
