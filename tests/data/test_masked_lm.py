import logging
import pathlib

import numpy as np
import pytest

import kbert
from kbert.data import Tokenizer, masked_lm_dataset, read_documents

DATA = pathlib.Path(__file__).parents[3] / "shared" / "data"
needs_data = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"the real data is not at {DATA}"
)
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PAD, UNK, CLS, SEP, MASK = range(5)
WORDS = [f"w{i}" for i in range(200)]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.from_vocab(
        [*SPECIAL, *WORDS, "##x", "##y"], max_length=512
    )


def documents(num=40, seed=0):
    """Document d says nothing but word d, so a token tells where it is from."""
    rng = np.random.default_rng(seed)
    return [
        [
            " ".join(f"w{d}" + "xy"[: rng.integers(3)] for _ in range(size))
            for size in rng.integers(1, 12, rng.integers(2, 9))
        ]
        for d in range(num)
    ]


def sentences(num=50, seed=0):
    rng = np.random.default_rng(seed)
    return [
        " ".join(f"w{i}" for i in rng.integers(0, 200, size))
        for size in rng.integers(1, 28, num)
    ]


def batches(texts, tokenizer, **options):
    options = {"batch_size": 8, "max_length": 32} | options
    dataset = masked_lm_dataset(texts, tokenizer=tokenizer, **options)
    return [as_numpy(batch) for batch in dataset], dataset


def as_numpy(batch):
    if isinstance(batch, dict):
        return {name: as_numpy(value) for name, value in batch.items()}
    if isinstance(batch, tuple):
        return tuple(map(as_numpy, batch))
    return batch.numpy()


def mlm(values):
    return values["mlm"] if isinstance(values, dict) else values


def restored(batch):
    """Token ids as they were before the masks."""
    x, y, weights = batch
    ids = x["token_ids"].copy()
    row, slot = np.nonzero(mlm(weights))
    ids[row, x["mask_positions"][row, slot]] = mlm(y)[row, slot]
    return ids


def rows_of(made):
    return [row[row != PAD].tolist() for b in made for row in restored(b)]


def same(one, other):
    import tensorflow as tf

    one, other = tf.nest.flatten(one), tf.nest.flatten(other)
    return len(one) == len(other) and all(
        a.shape == b.shape and (a == b).all()
        for a, b in zip(one, other, strict=True)
    )


# What is in a batch.


def test_texts_become_one_sequence_each(tokenizer):
    texts = sentences()
    made, _ = batches(texts, tokenizer, pad_to="max")
    assert rows_of(made) == [tokenizer(text).ids for text in texts]
    for x, y, weights in made:
        assert set(x) == {
            "token_ids",
            "segment_ids",
            "padding_mask",
            "mask_positions",
        }
        assert {array.dtype.name for array in (*x.values(), y)} == {"int32"}
        assert weights.dtype == "float32"
        assert x["token_ids"].shape[1] == 32
        assert y.shape == weights.shape == x["mask_positions"].shape
        assert y.shape[1] == 5
        assert (x["padding_mask"] == (x["token_ids"] != PAD)).all()
        assert (x["segment_ids"] == 0).all()
        assert (weights.sum(axis=1) >= 1).all()


def test_texts_may_come_in_any_form(tokenizer):
    texts = sentences()
    expected, _ = batches(texts, tokenizer)
    for form in (
        iter(texts),
        tuple(texts),
        np.array(texts),
        (t for t in texts),
    ):
        assert same(batches(form, tokenizer)[0], expected)


@pytest.mark.parametrize("pad_to", ["bucket", "batch", "max"])
def test_slots_follow_the_length(tokenizer, pad_to):
    made, dataset = batches(sentences(), tokenizer, pad_to=pad_to)
    for x, y, _ in made:
        length = x["token_ids"].shape[1]
        assert y.shape[1] == -(-length * 15 // 100)
    static = dataset.element_spec[1].shape
    assert static == ([None, 5] if pad_to == "max" else [None, None])


def test_max_predictions_is_the_number_of_slots(tokenizer):
    for pad_to in ("bucket", "max"):
        made, dataset = batches(
            sentences(), tokenizer, pad_to=pad_to, max_predictions=3
        )
        assert dataset.element_spec[1].shape[1] == 3
        assert max(weights.sum(axis=1).max() for _, _, weights in made) == 3


def test_all_shapes_are_static_where_asked(tokenizer):
    import tensorflow as tf

    _, dataset = batches(
        documents(),
        tokenizer,
        next_sentence=True,
        pad_to="max",
        drop_remainder=True,
    )
    for spec in tf.nest.flatten(dataset.element_spec):
        assert spec.shape.is_fully_defined()


def test_long_texts_are_truncated_and_counted(tokenizer, caplog):
    with caplog.at_level(logging.WARNING, "kbert"):
        made, _ = batches(["w1 " * 50, "w2", "w3 " * 30], tokenizer)
    assert sorted(map(len, rows_of(made))) == [3, 32, 32]
    assert "1 of 3 texts have more than max_length=32" in caplog.text


def test_pairs_hold_two_documents_or_one(tokenizer):
    made, _ = batches(documents(), tokenizer, next_sentence=True, max_length=48)
    count, random = 0, 0
    for batch in made:
        x, y, weights = batch
        assert set(y) == set(weights) == {"mlm", "nsp"}
        assert y["nsp"].dtype == "int32" and y["nsp"].ndim == 1
        assert (weights["nsp"] == 1).all()
        assert weights["nsp"].dtype == "float32"
        for ids, segments, label in zip(
            restored(batch), x["segment_ids"], y["nsp"], strict=True
        ):
            ids, segments = ids[ids != PAD], segments[ids != PAD]
            ends = np.flatnonzero(ids == SEP)
            assert ids[0] == CLS and len(ends) == 2 and ends[1] == len(ids) - 1
            assert (segments == (np.arange(len(ids)) > ends[0])).all()
            first, second = ids[1 : ends[0]], ids[ends[0] + 1 : -1]
            assert len(first) and len(second)
            # Second pieces are the same in all documents.
            first, second = first[first < 205], second[second < 205]
            assert len(set(first)) <= 1 and len(set(second)) <= 1
            if len(first) and len(second):
                assert (first[0] != second[0]) == label
            count, random = count + 1, random + label
    assert abs(random / count - 0.5) < 0.1


def test_order_pairs_hold_one_document(tokenizer):
    made, _ = batches(documents(), tokenizer, sentence_order=True)
    labels = np.concatenate([y["nsp"] for _, y, _ in made])
    assert 0.3 < labels.mean() < 0.7
    for row in rows_of(made):
        assert row.count(SEP) == 2
        assert len({token for token in row if 5 <= token < 205}) <= 1


def test_documents_without_pairs_are_packed(tokenizer):
    made, _ = batches(documents(), tokenizer, pad_to="max")
    rows = rows_of(made)
    ids = [tokenizer(" ".join(d)).ids[1:-1] for d in documents()]
    expected = [token for document in ids for token in document]
    assert [t for row in rows for t in row if t not in (CLS, SEP)] == expected
    assert all(row[0] == CLS and row[-1] == SEP for row in rows)
    assert np.mean([len(row) for row in rows]) > 24
    # Somewhere, one document ends and the next begins.
    assert any(row[1:-1].count(SEP) for row in rows)


@pytest.mark.parametrize("family", ["roberta", "distilbert", "mpnet"])
def test_templates_of_families(family):
    names = dict(
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
    )
    tokenizer = Tokenizer.from_vocab([*SPECIAL, *WORDS])
    if family != "distilbert":
        # `<s> A </s></s> B </s>`
        from tokenizers import processors

        tokenizer.backend.post_processor = processors.RobertaProcessing(
            ("[SEP]", SEP), ("[CLS]", CLS)
        )
    if family != "roberta":
        tokenizer = Tokenizer(
            tokenizer.backend, special_tokens=names, family=family
        )
    texts = [[f"w{d}", f"w{d}"] for d in range(9)]
    made, _ = batches(texts, tokenizer, next_sentence=True)
    assert all("segment_ids" in x for x, _, _ in made) == (family == "roberta")
    for row in rows_of(made):
        words = [tokenizer.id_to_token(i) for i in row if i >= 5]
        # Of two sentences, the first is A.
        assert row == tokenizer(words[0], " ".join(words[1:])).ids
    for x, _, _ in made:
        if "segment_ids" in x:
            assert (x["segment_ids"] == 0).all()


@pytest.mark.parametrize("unit", ["word", "span", "ngram"])
@pytest.mark.parametrize("options", [{}, {"dupe_factor": 1}])
def test_words_are_masked_whole(tokenizer, unit, options):
    made, _ = batches(
        [" ".join(d) for d in documents(200)],
        tokenizer,
        unit=unit,
        max_length=64,
        pad_to="max",
        **options,
    )
    count = 0
    for batch in made:
        ids, where = restored(batch), np.zeros(batch[0]["token_ids"].shape)
        row, slot = np.nonzero(batch[2])
        where[row, batch[0]["mask_positions"][row, slot]] = 1
        # 205 and 206 are `##x` and `##y`.
        continues = ids[:, 1:] >= 205
        assert (where[:, 1:] == where[:, :-1])[continues].all()
        count += where[:, 1:][continues].sum()
    assert count > 100


# Epochs and seeds.


@pytest.mark.parametrize("unit", ["token", "word", "span", "ngram"])
def test_the_same_seed_gives_the_same_epochs(tokenizer, unit):
    options = dict(unit=unit, next_sentence=True, shuffle=True, max_length=48)
    first, dataset = batches(documents(), tokenizer, **options)
    second = [as_numpy(batch) for batch in dataset]
    other_first, other = batches(documents(), tokenizer, **options)
    other_second = [as_numpy(batch) for batch in other]
    assert same(first, other_first) and same(second, other_second)
    assert not same(first, second)
    assert not same(
        first, batches(documents(), tokenizer, seed=1, **options)[0]
    )
    # The sequences are the same ones, in another order.
    assert sorted(rows_of(first)) == sorted(rows_of(second))
    assert rows_of(first) != rows_of(second)


def test_another_epoch_has_other_masks_in_the_same_order(tokenizer):
    first, dataset = batches(sentences(200), tokenizer, pad_to="max")
    second = [as_numpy(batch) for batch in dataset]
    assert rows_of(first) == rows_of(second)
    equal = [
        (a["mask_positions"] == b["mask_positions"]).all(axis=1).mean()
        for (a, _, _), (b, _, _) in zip(first, second, strict=True)
    ]
    assert np.mean(equal) < 0.3


def test_batches_of_an_epoch_have_different_masks(tokenizer):
    text = "w1 " * 30
    made, _ = batches([text] * 64, tokenizer)
    positions = [tuple(x["mask_positions"].ravel()) for x, _, _ in made]
    assert len(set(positions)) == len(made)


@pytest.mark.parametrize("unit", ["token", "word", "span"])
def test_static_masks_stay(tokenizer, unit):
    options = dict(unit=unit, shuffle=True)
    first, dataset = batches(sentences(), tokenizer, dupe_factor=3, **options)
    second = [as_numpy(batch) for batch in dataset]

    def examples(made):
        return sorted(
            (row.tolist(), positions[:count].tolist(), restored_row.tolist())
            for batch in made
            for row, positions, count, restored_row in zip(
                [r[r != PAD] for r in batch[0]["token_ids"]],
                batch[0]["mask_positions"],
                batch[2].sum(axis=1).astype(int),
                [r[r != PAD] for r in restored(batch)],
                strict=True,
            )
        )

    assert examples(first) == examples(second)
    assert not same(first, second)
    plain = rows_of(batches(sentences(), tokenizer, **options)[0])
    assert sorted(rows_of(first)) == sorted(plain * 3)
    # Three times the same sequence, with masks of its own.
    assert len({str(row) for row, _, _ in examples(first)}) > 2 * len(plain)


def test_static_masks_fill_the_slots_of_any_batch(tokenizer):
    made, _ = batches(sentences(), tokenizer, dupe_factor=1)
    for x, y, weights in made:
        length = x["token_ids"].shape[1]
        assert y.shape[1] == -(-length * 15 // 100)
        assert (weights.sum(axis=1) >= 1).all()
    counts = sum(weights.sum() for _, _, weights in made)
    ordinary = sum((np.array(row) >= 5).sum() for row in rows_of(made))
    assert abs(counts / ordinary - 0.15) < 0.03


def test_copies_of_documents_have_other_pairs(tokenizer):
    one, _ = batches(documents(), tokenizer, next_sentence=True, dupe_factor=1)
    two, _ = batches(documents(), tokenizer, next_sentence=True, dupe_factor=2)
    one, two = rows_of(one), rows_of(two)
    assert 1.7 < len(two) / len(one) < 2.3
    assert len(set(map(tuple, two))) > 1.5 * len(set(map(tuple, one)))


# Odd corpora.


def test_empty_and_one_word_texts(tokenizer):
    made, _ = batches(["", "w1", "?", " \t", "w2x"], tokenizer, pad_to="max")
    ((x, _, weights),) = made
    assert weights.sum(axis=1).tolist() == [0, 1, 0, 0, 1]
    assert x["padding_mask"].sum(axis=1).tolist() == [2, 3, 3, 2, 4]


@pytest.mark.parametrize("options", [{}, {"sentence_order": True}])
def test_one_word_and_empty_documents(tokenizer, options):
    made, _ = batches([["w1"], [], [""], ["w2xy", ""]], tokenizer, **options)
    rows = rows_of(made)
    if options:
        assert len(rows) == 1 and sorted(rows[0])[:3] == [CLS, SEP, SEP]
    else:
        assert [t for t in rows[0] if t >= 5 or t == SEP][1] == SEP
    assert all(mlm(w).sum(axis=1).min() >= 1 for _, _, w in made)


def test_a_corpus_with_a_blank_line_after_every_sentence(tokenizer, tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("\n\n".join(sentences()))
    with pytest.raises(ValueError, match="blank lines between sentences"):
        batches(read_documents(path), tokenizer, next_sentence=True)
    made, _ = batches(read_documents(path), tokenizer)
    kept = [t for row in rows_of(made) for t in row if t not in (CLS, SEP)]
    assert len(kept) == sum(len(text.split()) for text in sentences())


def test_one_document_is_refused_for_next_sentences(tokenizer):
    with pytest.raises(ValueError, match="Received: 1 document"):
        batches([["w1 w2", "w3"]], tokenizer, next_sentence=True)
    batches([["w1 w2", "w3"]], tokenizer, sentence_order=True)


def test_long_sentences_lose_nothing_when_packed(tokenizer):
    made, _ = batches([["w1 " * 1000, "w2 " * 31]], tokenizer)
    kept = [token for row in rows_of(made) for token in row if token >= 5]
    assert len(kept) == 1031


def test_special_tokens_in_the_text_are_not_masked(tokenizer):
    texts = ["[MASK] w1 [SEP] ? [PAD] [CLS] w2"] * 200
    made, _ = batches(texts, tokenizer, pad_to="max")
    ids = tokenizer(texts[0]).ids
    for batch in made:
        assert (restored(batch)[:, : len(ids)] == ids).all()
        assert mlm(batch[1])[mlm(batch[2]) > 0].min() >= 5


# Refusals.


@pytest.mark.parametrize(
    ("texts", "options", "error", "message"),
    [
        ("w1 w2", {}, TypeError, "texts='w1 w2'"),
        ([], {}, ValueError, "0 documents"),
        (["w1", ["w2"]], {}, TypeError, r"texts\[1\]=\['w2'\]"),
        ([["w1"], "w2"], {}, TypeError, "'w2' at 1"),
        ([["w1"], [2]], {}, TypeError, r"documents\[1\]\[0\]=2"),
        (["w1", None], {}, TypeError, r"texts\[1\]=None"),
        ([None, "w1"], {}, TypeError, r"documents\[0\]=None"),
        (["\ud800"], {}, ValueError, "surrogate"),
        ([["", " "], []], {}, ValueError, "2 documents without a token"),
        (["w1"], {"next_sentence": True}, TypeError, r"texts\[0\]='w1'"),
        (["w1"], {"next_sentence": 1}, TypeError, "next_sentence=1"),
        (
            [["w1"]],
            {"next_sentence": True, "sentence_order": True},
            ValueError,
            "choose one",
        ),
        (["w1"], {"mask_probability": 0}, ValueError, "mask_probability=0"),
        (["w1"], {"mask_probability": 15}, ValueError, "=15"),
        (["w1"], {"mask_probability": "a"}, TypeError, "='a'"),
        (["w1"], {"mask_probability": float("nan")}, ValueError, "=nan"),
        (["w1"], {"short_probability": -0.1}, ValueError, "=-0.1"),
        (["w1"], {"max_predictions": 0}, ValueError, "max_predictions=0"),
        (["w1"], {"max_predictions": 2.5}, TypeError, "max_predictions=2.5"),
        (["w1"], {"dupe_factor": 0}, ValueError, "dupe_factor=0"),
        (["w1"], {"dupe_factor": True}, TypeError, "dupe_factor=True"),
        (["w1"], {"unit": "words"}, ValueError, "unit='words'"),
        (["w1"], {"max_length": 2}, ValueError, "max_length=2"),
        ([["w1"]], {"max_length": 600}, ValueError, "max_length=600"),
        (
            [["w1", "w2"]] * 2,
            {"max_length": 4, "next_sentence": True},
            ValueError,
            "room for 2 tokens.*max_length=4",
        ),
        (["w1"], {"batch_size": 0}, ValueError, "batch_size=0"),
        (["w1"], {"seed": -1}, ValueError, "seed=-1"),
    ],
)
def test_refusals(tokenizer, texts, options, error, message):
    with pytest.raises(error, match=message) as caught:
        batches(texts, tokenizer, **options)
    assert "Received: " in str(caught.value)


# With a model, and at the size of real text.


@pytest.mark.slow
def test_a_model_fits(tiny_config, tiny_tokenizer):
    import keras

    model = kbert.build_pretrainer(kbert.build_encoder(tiny_config))
    texts = [["the film was good", "a bad play"], ["very not good", "is"]] * 8
    dataset = masked_lm_dataset(
        texts,
        tokenizer=tiny_tokenizer,
        batch_size=4,
        max_length=16,
        next_sentence=True,
        dupe_factor=1,
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(loss={"mlm": loss, "nsp": loss}, optimizer="adam")
    history = model.fit(dataset, epochs=3, shuffle=False, verbose=0).history[
        "loss"
    ]
    assert np.isfinite(history).all() and history[-1] < history[0]


@pytest.fixture(scope="module")
def real():
    tokenizer = Tokenizer.from_vocab(
        DATA / "vocabs" / "bert-base-uncased" / "vocab.txt"
    )
    folder = DATA / "pretrain"
    texts = list(read_documents(folder / "wikipedia"))
    texts += read_documents(folder / "speeches")
    return texts, tokenizer


@needs_data
@pytest.mark.slow
@pytest.mark.parametrize("unit", ["token", "word", "span", "ngram"])
def test_a_million_real_tokens(real, unit):
    texts, tokenizer = real
    options = dict(unit=unit, next_sentence=True, max_length=128, batch_size=64)
    made, _ = batches(texts, tokenizer, **options)
    special = np.array(tokenizer.special_token_ids)
    ordinary, labels, new, spans = 0, [], [], 0
    for batch in made:
        x, y, weights = batch
        ids, used = restored(batch), weights["mlm"] > 0
        ordinary += (~np.isin(ids, special)).sum()
        labels.append(y["mlm"][used])
        row, _ = np.nonzero(used)
        where = x["mask_positions"][used]
        new.append(x["token_ids"][row, where])
        spans += 1 + (np.diff(row * 1000 + where) != 1).sum()
        assert (used.sum(axis=1) >= 1).all()
        if unit != "token":
            _assert_whole(ids, used, x["mask_positions"], tokenizer)
    labels, new = np.concatenate(labels), np.concatenate(new)
    assert ordinary > 1_000_000
    assert abs(len(labels) / ordinary - 0.15) < 0.002
    assert not np.isin(labels, special).any()
    is_mask, is_same = new == tokenizer.mask_token_id, new == labels
    assert not np.isin(new[~is_mask], special).any()
    # Tokens of a span share their fate.
    draws = spans / 3 if unit == "span" else len(labels)
    for share, expected in (
        (is_mask.mean(), 0.8),
        (is_same.mean(), 0.1),
        (1 - is_mask.mean() - is_same.mean(), 0.1),
    ):
        error = np.sqrt(expected * (1 - expected) / draws)
        assert abs(share - expected) < 3 * error
    random = np.concatenate([y["nsp"] for _, y, _ in made])
    assert abs(random.mean() - 0.5) < 0.01


def _assert_whole(ids, used, positions, tokenizer):
    """Pieces `##` are masked if and only if what they continue is."""
    where = np.zeros(ids.shape, bool)
    row, _ = np.nonzero(used)
    where[row, positions[used]] = True
    tokens = {id: token for token, id in tokenizer.get_vocab().items()}
    is_piece = np.array(
        [tokens[i].startswith("##") for i in range(tokenizer.vocab_size)]
    )
    continues = is_piece[ids][:, 1:] & ~np.isin(
        ids[:, :-1], tokenizer.special_token_ids
    )
    assert continues.any()
    assert (where[:, 1:] == where[:, :-1])[continues].all()


@needs_data
@pytest.mark.parametrize("name", ["roberta-base", "albert-base"])
def test_words_of_other_tokenizers_are_masked_whole(name):
    tokenizer = Tokenizer.from_pretrained(DATA / "vocabs" / name)
    texts = [
        "The unbelievably uninteresting counterrevolutionaries misunderstood "
        f"{i} Antananarivo's hydrodynamics, didn't they?"
        for i in range(50)
    ]
    made, _ = batches(
        texts, tokenizer, unit="word", max_length=64, pad_to="max"
    )
    encoded = tokenizer.encode_batch(texts)
    partly, pieces = 0, 0
    row = 0
    for x, _, weights in made:
        for positions, used in zip(x["mask_positions"], weights, strict=True):
            words = encoded[row].word_ids
            row += 1
            chosen = set(positions[used > 0].tolist())
            for word in {words[position] for position in chosen}:
                all_of_it = {i for i, w in enumerate(words) if w == word}
                partly += not all_of_it <= chosen
                pieces += len(all_of_it) > 1
    assert partly == 0 and pieces > 10
