"""Forward passes of ModernBERT and DeBERTa-v3 beside transformers.

Six layers of the base sizes with random weights, 2,048 tokens a batch, no
padding, float32. Each run is a process of its own; the two take turns.

    python tests/benchmarks/families.py

needs `pip install -e .[parity]`.
"""

import argparse
import dataclasses
import statistics
import time

import children
import numpy as np

TOKENS, LAYERS, VOCABULARY = 2048, 6, 1000
FAMILIES = ("modernbert", "deberta-v3", "mpnet")


def make_transformers(family, length, ids):
    import torch
    import transformers

    sizes = {
        "vocab_size": VOCABULARY,
        "num_hidden_layers": LAYERS,
        "pad_token_id": 0,
        "max_position_embeddings": length + 2,
    }
    if family == "modernbert":
        model = transformers.ModernBertModel(
            transformers.ModernBertConfig(**sizes)
        )
    elif family == "mpnet":
        model = transformers.MPNetModel(transformers.MPNetConfig(**sizes))
    else:
        config = transformers.DebertaV2Config(
            **sizes,
            hidden_size=768,
            num_attention_heads=12,
            intermediate_size=3072,
            relative_attention=True,
            position_buckets=256,
            share_att_key=True,
            norm_rel_ebd="layer_norm",
            pos_att_type="p2c|c2p",
            position_biased_input=False,
        )
        model = transformers.DebertaV2Model(config)
    model.eval()
    inputs = {"input_ids": torch.tensor(ids).long()}
    inputs["attention_mask"] = torch.ones_like(inputs["input_ids"])

    def forward():
        with torch.no_grad():
            model(**inputs)

    return forward


def make_kbert(family, length, ids):
    import kbert

    config = {
        "modernbert": kbert.families.MODERNBERT_BASE,
        "deberta-v3": kbert.families.DEBERTA_V3_BASE,
        "mpnet": kbert.families.MPNET_BASE,
    }[family]
    config = dataclasses.replace(
        config,
        vocab_size=VOCABULARY,
        num_layers=LAYERS,
        pad_token_id=0,
        max_positions=length,
    )
    encoder = kbert.build_encoder(config)
    inputs = {"token_ids": ids, "padding_mask": np.ones_like(ids)}
    return lambda: encoder.predict_on_batch(inputs)


def child(peer, family, length):
    rng = np.random.default_rng(0)
    shape = (TOKENS // length, length)
    ids = rng.integers(5, VOCABULARY, shape).astype("int32")
    make = make_kbert if peer == "kbert" else make_transformers
    forward = make(family, length, ids)
    forward()
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        forward()
        seconds.append(time.perf_counter() - start)
    children.report({"seconds": statistics.median(seconds)})


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[128, 512, 2048]
    )
    parser.add_argument("--child", nargs=3)
    args = parser.parse_args()
    if args.child:
        child(args.child[0], args.child[1], int(args.child[2]))
        return
    print("| family | tokens a text | kbert s | transformers s | ratio |")
    print("|---|---|---|---|---|")
    for family in FAMILIES:
        for length in args.lengths:
            runs = {
                peer: children.run(__file__, "--child", peer, family, length)
                for peer in ("kbert", "transformers")
            }
            ours, theirs = (run["seconds"] for run in runs.values())
            print(
                f"| {family} | {length} | {ours:.2f} | {theirs:.2f} | "
                f"{theirs / ours:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
