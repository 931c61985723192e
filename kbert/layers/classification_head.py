"""Head that classifies a whole sequence."""

from collections.abc import Sequence

import keras
from keras import ops

from kbert.layers.activations import get_activation
from kbert.layers.composite import CompositeLayer
from kbert.layers.initializers import truncated_normal
from kbert.layers.logits import check_classes, logits_layer

PROBLEM_TYPES = (
    "single_label_classification",
    "multi_label_classification",
    "regression",
)


@keras.saving.register_keras_serializable(package="kbert")
class ClassificationHead(CompositeLayer):
    """One vector a sequence to logits, through an inner layer if asked.

    BERT's form is `Linear(Dropout(pooled))`. Other families put a dense
    layer into the head and use no pooler: `Linear(Dropout(activation(Dense(
    Dropout(first)))))`, where `first` is the hidden state of token 0.

    | family | `dense_activation` | `has_input_dropout` |
    |---|---|---|
    | BERT, ALBERT | None | True |
    | RoBERTa, MPNet | "tanh" | True |
    | ELECTRA | "gelu" | True |
    | DistilBERT | "relu" | False |

    Serves single-label and multi-label classification, regression
    (`num_classes=1`) and next-sentence prediction (`num_classes=2`): the
    loss tells them apart.

    Args:
        num_classes: int, number C of outputs.
        hidden_dropout: float, dropout probability of the linear layer's
            input and, with `has_input_dropout`, of the dense layer's.
        initializer_range: float, standard deviation of the initial kernel.
        label_names: list of C different strings, or None. Kept with the
            model, so that a saved one still knows what its outputs mean.
        problem_type: "single_label_classification",
            "multi_label_classification", "regression" (transformers' words)
            or None for unsaid. Kept likewise; it changes no output.
        dense_size: int, width of the inner dense layer; None for no such
            layer.
        dense_activation: str, its activation: "gelu" (exact), "gelu_tanh",
            or a Keras name; None exactly where `dense_size` is.
        has_input_dropout: bool, whether the head's input is dropped out too;
            without an inner layer it is the only thing that can be.
        **kwargs: `name`, `dtype`, `trainable` of `keras.layers.Layer`.

    Call arguments:
        pooled_output: float (B, H): the pooler's output or, for a head with
            an inner layer, the first token's hidden state.
        training: bool, whether dropout is on; it never is in a frozen layer
            (`trainable = False`).

    Returns:
        Logits, float32 (B, C) under every dtype policy.

    Raises:
        TypeError: if `num_classes` is no int or a name no string.
        ValueError: if `num_classes` is under 1, `label_names` does not hold
            `num_classes` different names, `problem_type` is unknown, or only
            one of `dense_size` and `dense_activation` is given.

    Example:
        >>> import numpy as np, kbert
        >>> head = kbert.layers.ClassificationHead(num_classes=3)
        >>> tuple(head(np.ones((2, 8), "float32")).shape)
        (2, 3)

    References:
        `create_model` in google-research/bert `run_classifier.py`;
        `RobertaClassificationHead` in facebookresearch/fairseq
        `models/roberta/model.py` (the inner layer)
    """

    def __init__(
        self,
        num_classes: int,
        hidden_dropout: float = 0.1,
        initializer_range: float = 0.02,
        label_names: Sequence[str] | None = None,
        problem_type: str | None = None,
        dense_size: int | None = None,
        dense_activation: str | None = None,
        has_input_dropout: bool = True,
        **kwargs,
    ):
        """See the class."""
        super().__init__(**kwargs)
        check_classes(num_classes, label_names)
        if problem_type not in (None, *PROBLEM_TYPES):
            raise ValueError(
                f"`problem_type` must be None or one of {PROBLEM_TYPES}. "
                f"Received: problem_type={problem_type!r}"
            )
        if (dense_size is None) != (dense_activation is None):
            raise ValueError(
                "`dense_size` and `dense_activation` belong together: give "
                f"both or neither. Received: dense_size={dense_size!r}, "
                f"dense_activation={dense_activation!r}"
            )
        self.num_classes = int(num_classes)
        self.hidden_dropout = hidden_dropout
        self.initializer_range = initializer_range
        self.label_names = None if label_names is None else list(label_names)
        self.problem_type = problem_type
        self.dense_size = dense_size
        self.dense_activation = dense_activation
        self.has_input_dropout = has_input_dropout
        self.dropout = keras.layers.Dropout(
            hidden_dropout, dtype=self.dtype_policy, name="dropout"
        )
        self.dense = None
        if dense_size is not None and dense_activation is not None:
            self.dense = keras.layers.Dense(
                dense_size,
                activation=get_activation(dense_activation),
                kernel_initializer=truncated_normal(initializer_range),
                dtype=self.dtype_policy,
                name="dense",
            )
        self.logits = logits_layer(self.num_classes, initializer_range)

    def build(self, pooled_output_shape):
        """Create the kernels; the shape is (B, H)."""
        logits_shape = pooled_output_shape
        if self.dense is not None:
            self.dense.build(pooled_output_shape)
            logits_shape = (*pooled_output_shape[:-1], self.dense_size)
        self.logits.build(logits_shape)

    def call(self, pooled_output, training=None):
        """See the class."""
        training = training and self.trainable
        x = pooled_output
        if self.has_input_dropout:
            x = self.dropout(x, training=training)
        if self.dense is not None:
            x = self.dropout(self.dense(x), training=training)
        return self.logits(ops.cast(x, "float32"))

    def compute_output_spec(self, pooled_output, training=None):
        """Return float32 (B, C)."""
        shape = (*pooled_output.shape[:-1], self.num_classes)
        return keras.KerasTensor(shape, dtype="float32")

    def get_config(self):
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "hidden_dropout": self.hidden_dropout,
            "initializer_range": self.initializer_range,
            "label_names": self.label_names,
            "problem_type": self.problem_type,
            "dense_size": self.dense_size,
            "dense_activation": self.dense_activation,
            "has_input_dropout": self.has_input_dropout,
        }
