"""Every family and head: transformers → kbert → transformers, live.

A tiny random model of transformers' is saved, loaded with its head, compared,
saved again and loaded by transformers again.
"""

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="pip install keras-kbert[parity]")
transformers = pytest.importorskip(
    "transformers", reason="pip install keras-kbert[parity]"
)

from keras import ops  # noqa: E402

import kbert  # noqa: E402

SIZES = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "max_position_embeddings": 24,
    "initializer_range": 0.3,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.2,
}
CONFIGS = {
    "Bert": SIZES,
    "Roberta": SIZES | {"type_vocab_size": 1, "layer_norm_eps": 1e-5},
    "XLMRoberta": SIZES | {"type_vocab_size": 1, "hidden_act": "relu"},
    "Camembert": SIZES | {"type_vocab_size": 1},
    "DistilBert": {
        "vocab_size": 50,
        "dim": 16,
        "n_heads": 2,
        "hidden_dim": 24,
        "n_layers": 2,
        "max_position_embeddings": 24,
        "initializer_range": 0.3,
        "seq_classif_dropout": 0.3,
    },
    "Albert": SIZES | {"embedding_size": 8},
    "Electra": SIZES | {"embedding_size": 8, "hidden_act": "gelu_new"},
}
# Variations that one family has.
MORE = {
    "albert_groups": (
        "Albert",
        SIZES
        | {
            "embedding_size": 16,
            "num_hidden_layers": 4,
            "num_hidden_groups": 2,
            "inner_group_num": 2,
            "hidden_act": "gelu",
        },
    ),
    "electra_base": ("Electra", SIZES | {"embedding_size": 16}),
    "roberta_two_segments": ("Roberta", SIZES),
}
HEADS = {
    "Model": (kbert.load_encoder, {}),
    "ForSequenceClassification": (kbert.load_classifier, {}),
    "ForTokenClassification": (kbert.load_token_classifier, {}),
    "ForQuestionAnswering": (kbert.load_span_model, {}),
    "ForMaskedLM": (kbert.load_masked_lm, {"all_positions": True}),
}
CASES = [(name, name, config) for name, config in CONFIGS.items()]
CASES += [(name, family, config) for name, (family, config) in MORE.items()]


def make(family, head, config, seed=0, **kwargs):
    torch.manual_seed(seed)
    config = getattr(transformers, f"{family}Config")(**config, **kwargs)
    model = getattr(transformers, family + head)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:  # biases and norms start at 0 and 1
                parameter += 0.3 * torch.randn_like(parameter)
    return model


def inputs(model, family):
    rng = np.random.default_rng(0)
    mask = (np.arange(9) < np.array([9, 5, 1])[:, None]).astype("int64")
    pad = model.config.pad_token_id or 0
    ids = np.where(mask, rng.integers(5, 50, (3, 9)), pad)
    segments = getattr(model.config, "type_vocab_size", 0)
    kinds = (np.arange(9) > 3) * mask * (segments > 1)
    theirs = {
        "input_ids": torch.tensor(ids),
        "attention_mask": torch.tensor(mask),
    }
    if family != "DistilBert":
        theirs["token_type_ids"] = torch.tensor(kinds)
    ours = {"token_ids": ids, "segment_ids": kinds, "padding_mask": mask}
    return theirs, {k: v.astype("int32") for k, v in ours.items()}, mask


def compare(theirs, ours, given, our_given, mask):
    with torch.no_grad():
        expected = theirs(**given)
    result = ours({name: our_given[name] for name in ours.input})
    if not isinstance(result, dict):
        result = {"logits": result}
    names = {
        "sequence_output": "last_hidden_state",
        "pooled_output": "pooler_output",
        "start": "start_logits",
        "end": "end_logits",
        "mlm": "prediction_logits",
        "nsp": ("seq_relationship_logits", "sop_logits"),
    }
    largest = 0.0
    for key, value in result.items():
        name = names.get(key, key)
        if isinstance(name, tuple):
            name = next(n for n in name if n in expected)
        reference = expected[name].numpy()
        value = ops.convert_to_numpy(value)
        if reference.shape[:2] == mask.shape:
            real = mask.astype(bool)
            value, reference = value[real], reference[real]
        assert value.shape == reference.shape
        largest = max(largest, float(np.abs(value - reference).max()))
    return largest


@pytest.mark.parametrize("head", HEADS)
@pytest.mark.parametrize(
    ("family", "config"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_there_and_back(family, config, head, tmp_path):
    kwargs = {}
    if "Classification" in head:
        kwargs = {"id2label": {0: "a", 1: "b", 2: "c"}}
        kwargs["label2id"] = {"a": 0, "b": 1, "c": 2}
    theirs = make(family, head, config, **kwargs)
    given, our_given, mask = inputs(theirs, family)
    theirs.save_pretrained(tmp_path / "theirs")
    load, options = HEADS[head]
    ours, report = load(tmp_path / "theirs", report=True, **options)
    assert report.unused == report.missing == ()
    assert report.ignored_config_keys == ()
    assert compare(theirs, ours, given, our_given, mask) < 1e-5

    kbert.save_pretrained(ours, tmp_path / "ours")
    again, info = type(theirs).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not info["missing_keys"] and not info["unexpected_keys"]
    again.eval()
    with torch.no_grad():
        for key, value in theirs(**given).items():
            torch.testing.assert_close(again(**given)[key], value)
    before, after = (m.config.to_dict() for m in (theirs, again))
    for config in (before, after):
        config.pop("_name_or_path")
        config.pop("position_embedding_type", None)
    # A dropout of its own that is the encoder's need not be said.
    for key in ("classifier_dropout", "summary_activation"):
        before.pop(key, None)
        after.pop(key, None)
    if "Sequence" not in head:
        for key in ("classifier_dropout_prob", "seq_classif_dropout"):
            before.pop(key, None)
            after.pop(key, None)
    assert after == before


@pytest.mark.parametrize("family", ["Bert", "Albert"])
def test_pretraining_models(family, tmp_path):
    theirs = make(family, "ForPreTraining", CONFIGS[family])
    given, our_given, mask = inputs(theirs, family)
    theirs.save_pretrained(tmp_path / "theirs")
    ours, report = kbert.load_pretrainer(tmp_path / "theirs", report=True)
    assert report.unused == report.missing == ()
    our_given["mask_positions"] = np.tile(np.arange(9, dtype="int32"), (3, 1))
    assert compare(theirs, ours, given, our_given, mask) < 1e-5
    kbert.save_pretrained(ours, tmp_path / "ours")
    again, info = type(theirs).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not info["missing_keys"] and not info["unexpected_keys"]
    again.eval()
    assert compare(again, ours, given, our_given, mask) < 1e-5


@pytest.mark.parametrize("family", CONFIGS)
def test_a_head_that_is_absent_is_an_error_or_fresh(family, tmp_path):
    make(family, "Model", CONFIGS[family]).save_pretrained(tmp_path)
    for load in (
        kbert.load_classifier,
        kbert.load_token_classifier,
        kbert.load_span_model,
        kbert.load_masked_lm,
        kbert.load_pretrainer,
    ):
        with pytest.raises(ValueError, match=r"(?s)has no .* head.*Received"):
            load(tmp_path)
    model, report = kbert.load_classifier(
        tmp_path, fresh_head=True, num_classes=3, report=True
    )
    assert {path.split("/")[0] for path in report.missing} <= {
        "classifier",
        "pooler",
    }
    kbert.save_pretrained(model, tmp_path / "out")
    again = kbert.load_classifier(tmp_path / "out")
    assert len(again.weights) == len(model.weights)


def test_an_untied_decoder_is_refused(tmp_path):
    theirs = make(
        "Bert", "ForMaskedLM", CONFIGS["Bert"], tie_word_embeddings=False
    )
    theirs.save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"ties .* differs from .*Received"):
        kbert.load_masked_lm(tmp_path)
