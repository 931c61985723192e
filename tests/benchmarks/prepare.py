"""How fast text becomes masked batches, stage by stage, in one process.

    python tests/benchmarks/prepare.py --data ../shared/data

reads `pretrain/` (but for movie reviews and wikitext) and the vocabularies
there, and prints tokens a second for each stage, then for all together and
for each core that worked on it. The Rust tokenizer has a thread for each core;
RAYON_NUM_THREADS=1 gives it one, and then one core does everything.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

import numpy as np

from kbert.data import (
    Tokenizer,
    masked_lm_dataset,
    read_documents,
    read_records,
    write_pretraining_records,
)
from kbert.data.corpus import tokenize_documents
from kbert.data.mask_draws import draw_for_masks
from kbert.data.masking import Masker
from kbert.data.next_sentence import full_sentences, next_sentence_pairs
from kbert.data.segments import SegmentRows, Template

LENGTH, BATCH = 128, 32


def timed(make):
    start, cpu = time.perf_counter(), time.process_time()
    result = make()
    return result, time.perf_counter() - start, time.process_time() - cpu


def masked(rows, masker):
    slots = masker.num_slots(LENGTH)
    for start in range(0, len(rows.lengths), BATCH):
        indices = np.arange(start, min(start + BATCH, len(rows.lengths)))
        batch = rows(indices, LENGTH)
        draws = draw_for_masks(0, 0, indices, LENGTH)
        masker(batch.token_ids, batch.word_starts, draws, num_slots=slots)


def stages(documents, tokenizer, unit):
    """Yield name, tokens, seconds and core-seconds of each stage."""
    template = Template.of(tokenizer)
    has_words = unit != "token"
    corpus, *seconds = timed(
        lambda: tokenize_documents(
            documents,
            tokenizer,
            max_sentence=LENGTH - template.num_special(True),
            has_words=has_words,
        )
    )
    tokens = len(corpus.ids)
    yield f"tokenise, unit={unit}", tokens, *seconds
    _, *seconds = timed(
        lambda: full_sentences(corpus, LENGTH - 2, template.sep_token_id)
    )
    yield "pack full sentences", tokens, *seconds
    segments, *seconds = timed(
        lambda: next_sentence_pairs(
            corpus,
            LENGTH - template.num_special(True),
            np.random.default_rng(0),
        )
    )
    rows = SegmentRows(segments, template)
    tokens = int(rows.lengths.sum())
    yield "make pairs", tokens, *seconds
    _, *seconds = timed(lambda: masked(rows, Masker(tokenizer, unit=unit)))
    yield f"write out and mask, unit={unit}", tokens, *seconds


def everything(source, tokenizer, unit, **options):
    tokens = 0
    for x, _, _ in masked_lm_dataset(
        source,
        tokenizer=tokenizer,
        batch_size=BATCH,
        max_length=LENGTH,
        unit=unit,
        shuffle=True,
        **options,
    ):
        tokens += int(x["padding_mask"].numpy().sum())
    return tokens


def show(name, tokens, seconds, core_seconds):
    rate, per_core = tokens / seconds, tokens / core_seconds
    print(f"| {name} | {tokens:,} | {rate:,.0f} | {per_core:,.0f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    args = parser.parse_args()
    import tensorflow as tf

    tf.zeros(1)  # TensorFlow starts its runtime at the first operation
    threads = os.environ.get("RAYON_NUM_THREADS", f"{os.cpu_count()}")
    print(f"{os.cpu_count()} cores, {threads} threads of the tokenizer\n")
    print(
        "| stage | tokens | tokens/s | tokens/s and core |\n|---|---|---|---|"
    )
    folders = [args.data / "pretrain" / n for n in ("wikipedia", "gutenberg")]
    folders.append(args.data / "pretrain" / "speeches")
    documents, *seconds = timed(
        lambda: [d for folder in folders for d in read_documents(folder)]
    )
    vocab = args.data / "vocabs" / "bert-base-uncased" / "vocab.txt"
    tokenizer = Tokenizer.from_vocab(vocab)
    for unit in ("token", "word", "span", "ngram"):
        for number, stage in enumerate(stages(documents, tokenizer, unit)):
            if number == 0 and unit == "token":
                show("read and split", stage[1], *seconds)
            if unit == "token" or "unit=" in stage[0]:
                show(*stage)
    for unit in ("token", "word"):
        tokens, *seconds = timed(
            lambda unit=unit: everything(
                documents, tokenizer, unit, next_sentence=True
            )
        )
        show(f"all but reading, pairs, unit={unit}", tokens, *seconds)
    with tempfile.TemporaryDirectory() as folder:
        _, *seconds = timed(
            lambda: write_pretraining_records(
                documents,
                folder,
                tokenizer=tokenizer,
                max_length=LENGTH,
                next_sentence=True,
            )
        )
        records = read_records(folder)
        show("write records", int(records.lengths.sum()), *seconds)
        for unit in ("token", "word"):
            tokens, *seconds = timed(
                lambda unit=unit: everything(records, tokenizer, unit)
            )
            show(f"records to batches, unit={unit}", tokens, *seconds)


if __name__ == "__main__":
    main()
