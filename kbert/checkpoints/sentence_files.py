"""The JSON files around a checkpoint that say how it makes sentence vectors.

sentence-transformers' layout: `modules.json` lists modules, each with a
folder; the encoder's is the root, or a folder of its own in old files.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kbert.checkpoints.mapping import Row

# Their names of pooling modes → ours, in the order in which files of before
# version 6 concatenate.
MODES = {
    "cls": "cls",
    "max": "max",
    "mean": "mean",
    "mean_sqrt_len_tokens": "mean_sqrt_length",
    "weightedmean": "weighted_mean",
    "lasttoken": "last_token",
}
OLD_KEYS = {
    "cls": "pooling_mode_cls_token",
    "max": "pooling_mode_max_tokens",
    "mean": "pooling_mode_mean_tokens",
    "mean_sqrt_len_tokens": "pooling_mode_mean_sqrt_len_tokens",
    "weightedmean": "pooling_mode_weightedmean_tokens",
    "lasttoken": "pooling_mode_lasttoken",
}
# Classes of torch.nn → names of activations.
ACTIVATIONS = {
    "Tanh": "tanh",
    "Identity": "linear",
    "ReLU": "relu",
    "GELU": "gelu",
    "Sigmoid": "sigmoid",
    "SiLU": "silu",
    "ELU": "elu",
    "SELU": "selu",
    "Softplus": "softplus",
}
_MODULE = {
    "linear": "torch.nn.modules.linear.Identity",
    **{
        ours: f"torch.nn.modules.activation.{theirs}"
        for theirs, ours in ACTIVATIONS.items()
        if ours != "linear"
    },
}


@dataclass(frozen=True, kw_only=True)
class DenseFile:
    """A dense layer's folder.

    Args:
        folder: of its weights.
        in_features: width of its input.
        out_features: of its output.
        bias: whether it has one.
        activation: its name in Keras or kbert.
    """

    folder: str
    in_features: int
    out_features: int
    bias: bool
    activation: str

    def rows(self, layer: str) -> tuple[Row, Row]:
        """Rows of a Keras layer of this name."""
        return (
            Row("linear.weight", f"{layer}/kernel", transpose=True),
            Row("linear.bias", f"{layer}/bias"),
        )


@dataclass(frozen=True, kw_only=True)
class SentenceFiles:
    """What the files say besides the encoder.

    Args:
        folder: of the encoder; "" for the root.
        modes: of pooling, in our names.
        dense: layers after it.
        normalize: whether vectors get length 1.
        similarity: how vectors are compared.
        prompts: name → text.
        default_prompt_name: or None.
        max_length: most tokens of a text, or None.
        unknown_keys: keys of their files without meaning for kbert.
    """

    folder: str = ""
    modes: tuple[str, ...] = ("mean",)
    dense: tuple[DenseFile, ...] = ()
    normalize: bool = False
    similarity: str = "cosine"
    prompts: Mapping[str, str] = field(default_factory=dict)
    default_prompt_name: str | None = None
    max_length: int | None = None
    unknown_keys: tuple[str, ...] = ()


def written_files(files: SentenceFiles, hidden_size: int) -> dict[str, str]:
    """Return the texts of sentence-transformers' files.

    Every version since 2 reads them, unless modes are concatenated in an
    order that only 6 can say.

    Args:
        files: what they should say; `folder` must be "".
        hidden_size: of the encoder.

    Returns:
        Path in the directory → text.

    Raises:
        ValueError: if a mode or an activation has no name there.
    """
    theirs = {ours: name for name, ours in MODES.items()}
    _check_named("pooling mode", files.modes, theirs)
    _check_named("activation", [x.activation for x in files.dense], _MODULE)
    modes = [theirs[mode] for mode in files.modes]
    pooling: dict[str, Any] = {
        "word_embedding_dimension": hidden_size,
        **{key: mode in modes for mode, key in OLD_KEYS.items()},
        "include_prompt": True,
    }
    if modes != [mode for mode in MODES if mode in modes]:
        pooling = {
            "embedding_dimension": hidden_size,
            "pooling_mode": modes,
            "include_prompt": True,
        }
    written: dict[str, Any] = {
        "config_sentence_transformers.json": {
            "prompts": dict(files.prompts),
            "default_prompt_name": files.default_prompt_name,
            "similarity_fn_name": files.similarity,
        },
        "sentence_bert_config.json": {
            "max_seq_length": files.max_length,
            "do_lower_case": False,
        },
        "1_Pooling/config.json": pooling,
    }
    kinds = [("Transformer", ""), ("Pooling", "1_Pooling")]
    for dense in files.dense:
        kinds.append(("Dense", dense.folder))
        written[f"{dense.folder}/config.json"] = {
            "in_features": dense.in_features,
            "out_features": dense.out_features,
            "bias": dense.bias,
            "activation_function": _MODULE[dense.activation],
        }
    if files.normalize:
        kinds.append(("Normalize", f"{len(kinds)}_Normalize"))
    written["modules.json"] = [
        {
            "idx": index,
            "name": str(index),
            "path": folder,
            "type": f"sentence_transformers.models.{kind}",
        }
        for index, (kind, folder) in enumerate(kinds)
    ]
    return {
        name: json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        for name, content in written.items()
    }


def _check_named(
    what: str, names: Sequence[str], known: Mapping[str, str]
) -> None:
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ValueError(
            f"sentence-transformers has a {what} among {list(known)}. Save "
            f"the model as a .keras file. Received: {unknown}"
        )
