import numpy as np
import pytest

from kbert.data.windows import split_windows

WORDS = "the film was good bad not a".split()


def original_rule(spans, position):
    """`_check_is_max_context` of run_squad.py, restated."""
    scores = []
    for start, size in spans:
        end = start + size - 1
        if start <= position <= end:
            side = min(position - start, end - position)
            scores.append(side + 0.01 * size)
        else:
            scores.append(-1)
    return int(np.argmax(scores))


@pytest.mark.parametrize("length", [0, 1, 5, 6, 7, 8, 13, 40])
@pytest.mark.parametrize("overlap", [0, 1, 3, 5])
@pytest.mark.parametrize("has_question", [False, True])
def test_windows_hold_every_token_and_best_is_the_original_rule(
    tiny_tokenizer, length, overlap, has_question
):
    text = " ".join(WORDS[i % len(WORDS)] for i in range(length))
    whole = tiny_tokenizer.encode(text, add_special_tokens=False).ids
    assert len(whole) == length
    texts, room = (["not bad"], 8 + 3) if has_question else ([text], 8)
    sequence = int(has_question)
    options = {"max_length": room, "overlap": overlap}
    if has_question:
        options |= {"pairs": [text], "truncation": "only_second"}
    windows = split_windows(
        tiny_tokenizer.encode_batch(texts, **options), overlap, sequence
    )
    spans, start, seen = [], 0, {}
    for number, encoding in enumerate(windows.encodings):
        ids = [
            id_
            for id_, of in zip(encoding.ids, encoding.sequence_ids, strict=True)
            if of == sequence
        ]
        assert ids == whole[start : start + len(ids)]
        spans.append((start, len(ids)))
        places = [
            start + i
            for i, of in enumerate(
                best
                for best, of in zip(
                    windows.is_best[number], encoding.sequence_ids, strict=True
                )
                if of == sequence
            )
            if of
        ]
        assert windows.is_best[number].sum() == len(places)
        for place in places:
            assert place not in seen, "best in two windows"
            seen[place] = number
        start += len(ids) - overlap
    assert start + overlap == length or length == 0
    assert seen == {
        place: original_rule(spans, place) for place in range(length)
    }


def test_windows_of_several_texts(tiny_tokenizer):
    texts = ["good", "", "bad " * 20, "not bad"]
    encodings = tiny_tokenizer.encode_batch(texts, max_length=8, overlap=2)
    windows = split_windows(encodings, 2)
    assert windows.texts.tolist() == [0, 1, 2, 2, 2, 2, 2, 3]
    assert len(windows) == 8
    counts = np.bincount(windows.texts, [m.sum() for m in windows.is_best])
    assert counts.tolist() == [1, 0, 20, 2]
