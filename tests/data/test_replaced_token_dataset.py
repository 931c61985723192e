import numpy as np
import pytest

from kbert.data import masked_lm_dataset, replaced_token_dataset

DOCUMENTS = [["the good film", "a bad plot ."], ["the film is good", "!"]]


def masked(tokenizer, texts, **options):
    return masked_lm_dataset(
        texts,
        tokenizer=tokenizer,
        batch_size=2,
        max_length=16,
        pad_to="max",
        **options,
    )


def arrays(batch):
    return {
        (part, key): value.numpy()
        for part, values in enumerate(batch)
        for key, value in values.items()
    }


def test_batches_hold_what_was_masked(tiny_tokenizer):
    source = masked(tiny_tokenizer, ["the good film was bad", "a plot", "!"])
    batches = list(replaced_token_dataset(source))
    before = list(
        masked(tiny_tokenizer, ["the good film was bad", "a plot", "!"])
    )
    assert len(batches) == len(before) == 2
    for (x, y, weights), (x0, y0, weights0) in zip(
        batches, before, strict=True
    ):
        assert set(x) == {*x0, "original_ids"}
        for key in x0:
            np.testing.assert_array_equal(x[key], x0[key])
        np.testing.assert_array_equal(x["original_ids"], y0)
        np.testing.assert_array_equal(y["mlm"], y0)
        np.testing.assert_array_equal(weights["mlm"], weights0)
        np.testing.assert_array_equal(y["replaced_token"], 0 * x["token_ids"])
        np.testing.assert_array_equal(
            weights["replaced_token"], x["padding_mask"]
        )
        # Unused slots must point at the first token: the sampler passes it by.
        unused = weights0.numpy() == 0
        assert unused.any() and not x["mask_positions"].numpy()[unused].any()
        assert x["mask_positions"].numpy()[~unused].all()
        # With the ids back at their positions no mask token is left.
        ids = x["token_ids"].numpy()
        for row, used in enumerate(~unused):
            at = x["mask_positions"].numpy()[row][used]
            ids[row][at] = x["original_ids"].numpy()[row][used]
        assert (ids != 4).all()
    dtypes = {key: value.dtype for key, value in arrays(batches[0]).items()}
    assert dtypes.pop((2, "mlm")) == dtypes.pop((2, "replaced_token"))
    assert set(dtypes.values()) == {np.dtype("int32")}


def test_pairs_keep_their_segments_and_lose_their_label(tiny_tokenizer):
    options = {"next_sentence": True, "dupe_factor": 1}
    source = masked(tiny_tokenizer, DOCUMENTS, **options)
    x, y, weights = next(iter(replaced_token_dataset(source)))
    assert set(y) == set(weights) == {"mlm", "replaced_token"}
    assert x["segment_ids"].numpy().any()
    _, y0, weights0 = next(iter(masked(tiny_tokenizer, DOCUMENTS, **options)))
    np.testing.assert_array_equal(x["original_ids"], y0["mlm"])
    np.testing.assert_array_equal(weights["mlm"], weights0["mlm"])


def test_epochs_have_other_masks_and_static_shapes(tiny_tokenizer):
    texts = ["the good film was bad and the plot was good"] * 8
    dataset = replaced_token_dataset(
        masked(tiny_tokenizer, texts, drop_remainder=True)
    )
    assert dataset.element_spec[0]["original_ids"].shape == (2, 3)
    one, other = (
        np.concatenate([x["mask_positions"] for x, _, _ in dataset])
        for _ in range(2)
    )
    assert (one != other).any()


@pytest.mark.parametrize("dataset", [None, [({}, {}, {})]])
def test_other_things_are_refused(dataset):
    with pytest.raises(ValueError, match="Received: dataset="):
        replaced_token_dataset(dataset)


def test_batches_without_masks_are_refused(tiny_tokenizer):
    from kbert.data import classification_dataset

    dataset = classification_dataset(
        ["good"], [1], tokenizer=tiny_tokenizer, batch_size=1, max_length=8
    )
    with pytest.raises(ValueError, match="masked_lm_dataset"):
        replaced_token_dataset(dataset)
