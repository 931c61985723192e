"""Trains a student model to answer as its teacher does."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import keras
from keras import ops

from kbert.losses.weighted_mean import sum_over_replicas
from kbert.models.distiller_options import (
    check_models,
    even_layers,
    factors_of,
    layer_pairs,
    losses_of,
    output_sizes,
)
from kbert.models.distiller_terms import mean_loss, output_triples
from kbert.models.parts import layer_dtype
from kbert.models.reading import encoder_config
from kbert.models.taps import TappedModel, inputs_of


class _Forward(NamedTuple):
    """What a student in training gives to the losses."""

    outputs: Any
    states: Any
    block_inputs: Any


@keras.saving.register_keras_serializable(package="kbert")
class Distiller(keras.Model):
    """Trains a student on a teacher's answers beside the labels.

    The loss of `fit` is a weighted sum of what is compiled, the "label" term,
    and of `terms`:

    - "output": the student's outputs against the teacher's: soft labels by
      `DistillationLoss`, sentence vectors or logits of any meaning by
      `HiddenStateLoss`; those of all outputs are added;
    - "hidden": hidden states after blocks, by `HiddenStateLoss`; mean over
      `hidden_layers`;
    - "attention": relations between tokens in blocks, by `RelationLoss`; mean
      over queries, keys and values, and over `attention_layers`.

    Vectors and states of another size than the teacher's go through a learned
    projection of the distiller's own, which `student` does not need.

    The teacher runs in inference mode and is frozen, in place. `predict` and
    `evaluate` are the student's own, on the labels alone; `student` is what
    to save with `save_pretrained`. Batches without labels have no label term,
    and need no compiled loss.

    `sample_weight` weighs the "output" term as it does the labels. Without
    it, and in the other terms, padding does not count; nor does it in the
    softmax over positions of a span model.

    Args:
        student: a model of kbert's builders, the one that trains.
        teacher: another with the same vocabulary and kind of outputs.
        terms: name → loss, as above; None for "output" alone, with
            `DistillationLoss(temperature=2.0)` where the student has a head
            of logits, else `HiddenStateLoss("cosine")`.
        term_weights: name → factor of a term, "label" included; those not
            given are 0.5 for "label" and "output", 1 for the others.
        hidden_layers: block of the student → block of the teacher, from 0
            on; None for all blocks of the student, evenly spread over the
            teacher's, the last on the last. A shared block counts each time
            that it is applied.
        attention_layers: likewise; None for the last on the last.
        name: of the model.

    Call arguments:
        inputs: dict of what student and teacher take.
        training: bool, whether dropout of the student is on.

    Returns:
        The student's outputs; in training, what `compute_loss` reads.

    Raises:
        ValueError: if the two share variables or do not fit together, a name
            is unknown, a weight is negative, or a block does not exist.

    Example:
        >>> import numpy as np, kbert
        >>> tiny = kbert.families.BERT_TINY
        >>> teacher, student = (
        ...     kbert.build_classifier(kbert.build_encoder(tiny), 3)
        ...     for _ in range(2))
        >>> distiller = kbert.Distiller(student, teacher)
        >>> distiller.compile("adam", loss="mse")
        >>> ids = np.array([[101, 7592, 102]])
        >>> x = {"token_ids": ids, "segment_ids": 0 * ids,
        ...      "padding_mask": 0 * ids + 1}
        >>> history = distiller.fit(x, np.ones((1, 3)), verbose=0)
        >>> sorted(history.history)
        ['label_loss', 'loss', 'output_loss']

    References:
        Hinton et al., 2015, https://arxiv.org/abs/1503.02531;
        Jiao et al., 2019, https://arxiv.org/abs/1909.10351 (layer map);
        Wang et al., 2020, https://arxiv.org/abs/2012.15828 (relations)
    """

    def __init__(
        self,
        student: keras.Model,
        teacher: keras.Model,
        terms: Mapping[str, keras.losses.Loss] | None = None,
        term_weights: Mapping[str, float] | None = None,
        hidden_layers: Mapping[int, int] | None = None,
        attention_layers: Mapping[int, int] | None = None,
        name: str = "distiller",
    ) -> None:
        """See the class."""
        super().__init__(name=name)
        check_models(student, teacher)
        depths = (
            encoder_config(student).num_layers,
            encoder_config(teacher).num_layers,
        )
        terms = losses_of(student, terms)
        term_weights = factors_of(terms, term_weights)
        # Not dicts, whose keys would be strings in a `.keras` file.
        self.hidden_layers = layer_pairs(
            "hidden_layers",
            hidden_layers,
            even_layers(*depths),
            depths,
        )
        self.attention_layers = layer_pairs(
            "attention_layers",
            attention_layers,
            {depths[0] - 1: depths[1] - 1},
            depths,
        )
        teacher.trainable = False
        self.student = student
        self.teacher = teacher
        self.terms = terms
        self.term_weights = term_weights
        self.output_projection = self._projection(
            "output", output_sizes(student, teacher, terms)
        )
        self.hidden_projection = self._projection(
            "hidden",
            (
                encoder_config(student).hidden_size,
                encoder_config(teacher).hidden_size,
            ),
        )
        self.trackers = {
            term: keras.metrics.Mean(name=f"{term}_loss")
            for term in term_weights
        }
        states = self.hidden_layers if "hidden" in terms else ()
        heads = self.attention_layers if "attention" in terms else ()
        self._student_run = TappedModel(
            student, [ours for ours, _ in states], [ours for ours, _ in heads]
        )
        self._teacher_run = TappedModel(
            teacher, [theirs for _, theirs in states], [t for _, t in heads]
        )
        self._shows_terms = True
        self.built = True

    def _projection(
        self, term: str, sizes: tuple[int, int]
    ) -> keras.layers.Dense | None:
        """A layer that gives the student's vectors the teacher's size."""
        if term not in self.terms or sizes[0] == sizes[1]:
            return None
        dense = keras.layers.Dense(
            sizes[1],
            dtype=layer_dtype(self.student),
            name=f"{term}_projection",
        )
        dense.build((None, sizes[0]))
        return dense

    def call(self, inputs: Any, training: bool | None = None) -> Any:
        """See the class."""
        if not training:
            return self.student(inputs_of(self.student, inputs), training=False)
        return _Forward(*self._student_run(inputs, training=True))

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        """Return the weighted sum of the terms, or the compiled loss alone.

        The latter in `evaluate`, where `y_pred` are plain outputs.
        """
        if not isinstance(y_pred, _Forward):
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        losses = {}
        if y is not None and self.term_weights["label"]:
            losses["label"] = super().compute_loss(
                x, y, y_pred.outputs, sample_weight, training
            )
        taught = _Forward(
            *keras.tree.map_structure(
                ops.stop_gradient, self._teacher_run(x, training=False)
            )
        )
        losses.update(self._term_losses(x, y_pred, taught, sample_weight))
        rows = ops.shape(x["padding_mask"])[0]
        for term, loss in losses.items():
            # A loss is the replica's share of the sum over replicas.
            self.trackers[term].update_state(
                sum_over_replicas(loss), sample_weight=rows
            )
        return sum(self.term_weights[term] * losses[term] for term in losses)

    def _term_losses(
        self, x: Any, ours: _Forward, theirs: _Forward, sample_weight: Any
    ) -> dict[str, Any]:
        """The losses against the teacher, name → scalar."""
        losses, real = {}, x["padding_mask"]
        if "output" in self.terms:
            outputs = ours.outputs
            if self.output_projection is not None:
                outputs = self.output_projection(outputs)
            triples = output_triples(
                self.student, x, outputs, theirs.outputs, sample_weight
            )
            loss = self.terms["output"]
            losses["output"] = sum(loss(*triple) for triple in triples)
        if "hidden" in self.terms:
            states = ours.states
            if self.hidden_projection is not None:
                states = [self.hidden_projection(state) for state in states]
            pairs = zip(theirs.states, states, strict=True)
            losses["hidden"] = mean_loss(self.terms["hidden"], pairs, real)
        if "attention" in self.terms:
            pairs = zip(
                map(
                    ops.stop_gradient,
                    self._teacher_run.projections(theirs.block_inputs),
                ),
                self._student_run.projections(ours.block_inputs),
                strict=True,
            )
            loss = self.terms["attention"]
            losses["attention"] = mean_loss(loss, pairs, real)
        return losses

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        """Update the student's metrics; the terms are shown in training."""
        if not isinstance(y_pred, _Forward):
            results = super().compute_metrics(x, y, y_pred, sample_weight)
            return self._without_terms(results)
        if y is None:
            return self.get_metrics_result()
        return super().compute_metrics(x, y, y_pred.outputs, sample_weight)

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluate the student: `keras.Model.evaluate`, with its arguments."""
        # Keras adds the replicas' metrics up only if `get_metrics_result` has
        # the names that `compute_metrics` gave.
        self._shows_terms = False
        try:
            return super().evaluate(*args, **kwargs)
        finally:
            self._shows_terms = True

    def get_metrics_result(self) -> dict[str, Any]:
        """Return the metrics' values, those of the terms in training only."""
        results = super().get_metrics_result()
        return results if self._shows_terms else self._without_terms(results)

    def _without_terms(self, results: dict[str, Any]) -> dict[str, Any]:
        names = {tracker.name for tracker in self.trackers.values()}
        return {k: v for k, v in results.items() if k not in names}

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        serialize = keras.saving.serialize_keras_object
        return {
            "student": serialize(self.student),
            "teacher": serialize(self.teacher),
            "terms": {k: serialize(v) for k, v in self.terms.items()},
            "term_weights": dict(self.term_weights),
            "hidden_layers": [list(pair) for pair in self.hidden_layers],
            "attention_layers": [list(pair) for pair in self.attention_layers],
            "name": self.name,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None):
        """Build a distiller from its config."""
        config = dict(config)
        for key in ("student", "teacher"):
            config[key] = keras.saving.deserialize_keras_object(
                config[key], custom_objects=custom_objects
            )
        config["terms"] = {
            term: keras.saving.deserialize_keras_object(
                loss, custom_objects=custom_objects
            )
            for term, loss in config["terms"].items()
        }
        for key in ("hidden_layers", "attention_layers"):
            config[key] = dict(config[key])
        return cls(**config)
