"""Tiny random models of every family and head, made by transformers.

`python tests/golden/family_models.py` (with the parity extra) writes them under
tests/golden/families, with inputs and outputs, for `test_family_golden.py`,
which needs neither torch nor transformers; with names after it, such as
`electra-Model`, only these. The live parity tests make theirs here too.
"""

import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent / "families"

SIZES = {
    "vocab_size": 50,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "num_hidden_layers": 2,
    "max_position_embeddings": 20,
    "initializer_range": 0.3,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.2,
}
MODERNBERT = {
    "vocab_size": 50,
    "hidden_size": 8,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "num_hidden_layers": 5,
    "max_position_embeddings": 20,
    "initializer_range": 0.3,
    "pad_token_id": 3,
}
DEBERTA = {
    "relative_attention": True,
    "position_buckets": 4,
    "share_att_key": True,
    "norm_rel_ebd": "layer_norm",
    "pos_att_type": "p2c|c2p",
}
# name → (transformers' prefix of class names, arguments of its config).
MODELS = {
    "bert": ("Bert", SIZES),
    "roberta": (
        "Roberta",
        SIZES | {"type_vocab_size": 1, "layer_norm_eps": 1e-5},
    ),
    "roberta_two_segments": ("Roberta", SIZES),
    "xlm_roberta": (
        "XLMRoberta",
        SIZES | {"type_vocab_size": 1, "hidden_act": "relu"},
    ),
    "camembert": ("Camembert", SIZES | {"type_vocab_size": 1}),
    "distilbert": (
        "DistilBert",
        {
            "vocab_size": 50,
            "dim": 8,
            "n_heads": 2,
            "hidden_dim": 12,
            "n_layers": 2,
            "max_position_embeddings": 20,
            "initializer_range": 0.3,
            "seq_classif_dropout": 0.3,
        },
    ),
    "albert": ("Albert", SIZES | {"embedding_size": 4}),
    "albert_groups": (
        "Albert",
        SIZES
        | {
            "embedding_size": 8,
            "num_hidden_layers": 4,
            "num_hidden_groups": 2,
            "inner_group_num": 2,
            "hidden_act": "gelu",
        },
    ),
    "electra": (
        "Electra",
        SIZES | {"embedding_size": 4, "hidden_act": "gelu_new"},
    ),
    "mpnet": (
        "MPNet",
        SIZES | {"layer_norm_eps": 1e-5},
    ),
    "modernbert": (
        "ModernBert",
        MODERNBERT
        | {
            "local_attention": 4,
            "global_attn_every_n_layers": 2,
            "classifier_pooling": "mean",
            "classifier_dropout": 0.2,
        },
    ),
    "modernbert_global": (
        "ModernBert",
        MODERNBERT
        | {"global_attn_every_n_layers": 1, "hidden_activation": "silu"},
    ),
    "deberta_v3": (
        "DebertaV2",
        SIZES
        | DEBERTA
        | {"position_biased_input": False, "type_vocab_size": 0},
    ),
    "deberta_v2_positions": (
        "DebertaV2",
        SIZES | DEBERTA | {"max_relative_positions": 6, "cls_dropout": 0.3},
    ),
    "electra_base": ("Electra", SIZES | {"embedding_size": 8}),
}
# transformers' suffix of the class name → the loader of kbert's that reads it.
HEADS = {
    "Model": "load_encoder",
    "ForSequenceClassification": "load_classifier",
    "ForTokenClassification": "load_token_classifier",
    "ForQuestionAnswering": "load_span_model",
    "ForMaskedLM": "load_masked_lm",
}
# The loader that reads `…ForPreTraining`.
PRETRAINING = {
    "bert": "load_pretrainer",
    "albert": "load_pretrainer",
    "electra": "load_replaced_token_detector",
    "electra_base": "load_replaced_token_detector",
}
# Key of kbert's output → keys of transformers'.
OUTPUTS = {
    "sequence_output": ("last_hidden_state",),
    "pooled_output": ("pooler_output",),
    "start": ("start_logits",),
    "end": ("end_logits",),
    "mlm": ("prediction_logits",),
    "nsp": ("seq_relationship_logits", "sop_logits"),
    "logits": ("logits",),
}


def cases():
    """Every (name, head) there is."""
    return [
        *((name, head) for name in MODELS for head in HEADS),
        *((name, "ForPreTraining") for name in PRETRAINING),
    ]


def make_model(name, head, seed=0, **kwargs):
    """A random transformers model whose biases and norms are random too."""
    import torch
    import transformers

    torch.manual_seed(seed)
    family, config = MODELS[name]
    if "Classification" in head:
        kwargs |= {"id2label": {0: "a", 1: "b", 2: "c"}}
        kwargs |= {"label2id": {"a": 0, "b": 1, "c": 2}}
    config = getattr(transformers, f"{family}Config")(**(config | kwargs))
    model = getattr(transformers, family + head)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim == 1:  # they start at 0 and 1
                parameter += 0.3 * torch.randn_like(parameter)
    return model


def make_inputs(model):
    """kbert's inputs: a full row, a padded one, and one of a single token."""
    rng = np.random.default_rng(0)
    mask = (np.arange(9) < np.array([9, 5, 1])[:, None]).astype("int32")
    pad = model.config.pad_token_id or 0
    ids = np.where(mask, rng.integers(5, 50, (3, 9)), pad).astype("int32")
    segments = getattr(model.config, "type_vocab_size", 0)
    kinds = ((np.arange(9) > 3) * mask * (segments > 1)).astype("int32")
    return {"token_ids": ids, "segment_ids": kinds, "padding_mask": mask}


def their_outputs(model, inputs):
    """transformers' outputs under kbert's keys."""
    import torch

    given = {
        "input_ids": torch.tensor(inputs["token_ids"]).long(),
        "attention_mask": torch.tensor(inputs["padding_mask"]).long(),
    }
    if hasattr(model.config, "type_vocab_size"):
        given["token_type_ids"] = torch.tensor(inputs["segment_ids"]).long()
    with torch.no_grad():
        outputs = model(**given)
    return {
        ours: outputs[key].numpy()
        for ours, keys in OUTPUTS.items()
        for key in keys
        if key in outputs
    }


def our_outputs(model, inputs):
    """kbert's outputs as numpy arrays."""
    from keras import ops

    length = inputs["token_ids"].shape[1]
    positions = np.tile(np.arange(length, dtype="int32"), (3, 1))
    given = {**inputs, "mask_positions": positions}
    outputs = model({name: given[name] for name in model.input})
    if not isinstance(outputs, dict):
        outputs = {"logits": outputs}
    return {key: ops.convert_to_numpy(x) for key, x in outputs.items()}


def largest_difference(ours, theirs, mask):
    """Largest absolute difference at real tokens."""
    assert set(ours) == set(theirs)
    largest = 0.0
    for key, value in ours.items():
        reference = theirs[key]
        assert value.shape == reference.shape, key
        if value.shape[:2] == mask.shape:
            real = mask.astype(bool)
            value, reference = value[real], reference[real]
        largest = max(largest, float(np.abs(value - reference).max()))
    return largest


def load(name, head, directory):
    """Load with kbert's loader for the head; returns model and report."""
    import kbert

    if head == "ForPreTraining":
        return getattr(kbert, PRETRAINING[name])(directory, report=True)
    options = {"all_positions": True} if head == "ForMaskedLM" else {}
    return getattr(kbert, HEADS[head])(directory, report=True, **options)


def main():
    """Write the cases that the command line names, or all."""
    from safetensors.numpy import save_file

    for name, head in cases():
        directory = FOLDER / f"{name}-{head}"
        if sys.argv[1:] and directory.name not in sys.argv[1:]:
            continue
        model = make_model(name, head)
        inputs = make_inputs(model)
        model.save_pretrained(directory)
        (directory / "generation_config.json").unlink(missing_ok=True)
        tensors = {f"input.{k}": v for k, v in inputs.items()}
        for key, value in their_outputs(model, inputs).items():
            tensors[f"output.{key}"] = np.ascontiguousarray(value)
        save_file(tensors, directory / "reference.safetensors")
        print(directory.name)


if __name__ == "__main__":
    sys.exit(main())
