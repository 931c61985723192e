import numpy as np

from kbert.data.encoding import flatten

TEXTS = ["the film was good", "", "bad " * 40, "not [MASK]", "a bad film"]


def test_flatten_gives_what_encode_ids_does(tiny_tokenizer):
    for max_length in (5, 32):
        expected = tiny_tokenizer.encode_ids(TEXTS, max_length=max_length)
        encoded = flatten(
            tiny_tokenizer.encode_batch(TEXTS, max_length=max_length)
        )
        for name in ("ids", "type_ids", "lengths"):
            ours, theirs = getattr(encoded, name), getattr(expected, name)
            assert ours.dtype == theirs.dtype
            np.testing.assert_array_equal(ours, theirs)
        assert encoded.num_truncated == expected.num_truncated
    assert len(flatten([]).lengths) == len(flatten([]).ids) == 0


def test_flatten_keeps_the_types_of_pairs(tiny_tokenizer):
    pairs = TEXTS[::-1]
    expected = tiny_tokenizer.encode_ids(TEXTS, pairs)
    encoded = flatten(tiny_tokenizer.encode_batch(TEXTS, pairs))
    np.testing.assert_array_equal(encoded.type_ids, expected.type_ids)
    assert encoded.type_ids.max() == 1
