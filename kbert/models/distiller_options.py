"""Defaults and checks of what a distiller is given."""

from collections.abc import Mapping

import keras

from kbert.layers import (
    ClassificationHead,
    MLMHead,
    ReplacedTokenHead,
    SpanHead,
    TokenClassificationHead,
)
from kbert.losses import DistillationLoss, HiddenStateLoss
from kbert.models.packed import refuse_packed
from kbert.models.reading import encoder_config

DEFAULT_WEIGHTS = {"label": 0.5, "output": 0.5, "hidden": 1.0, "attention": 1.0}
_SINGLE_LABEL = (None, "single_label_classification")
_LOGIT_HEADS = (ClassificationHead, MLMHead, SpanHead, TokenClassificationHead)


def check_models(student: keras.Model, teacher: keras.Model) -> None:
    """Raise unless a student can learn from a teacher."""
    for role, model in (("student", student), ("teacher", teacher)):
        if not isinstance(getattr(model, "input", None), dict):
            raise ValueError(
                f"`{role}` must be a model of kbert's builders, whose inputs "
                f"are a dict. Received: {role}={model!r}"
            )
        refuse_packed(model, "a distiller")
    sizes = [encoder_config(model).vocab_size for model in (student, teacher)]
    if sizes[0] != sizes[1]:
        raise ValueError(
            "Student and teacher must read the same token ids. Received: "
            f"vocab_size={sizes[0]} of the student, {sizes[1]} of the teacher"
        )
    names = [_label_names(model) for model in (student, teacher)]
    if None not in names and names[0] != names[1]:
        raise ValueError(
            "Student and teacher must have the same classes in the same "
            f"order. Received: label_names={names[0]} of the student, "
            f"{names[1]} of the teacher"
        )
    ours = {id(variable) for variable in student.weights}
    shared = [v.path for v in teacher.weights if id(v) in ours]
    if shared:
        raise ValueError(
            "Student and teacher must not share variables: one trains, the "
            "other is frozen. Received: models that share "
            f"{shared[:3]}{' …' if len(shared) > 3 else ''}"
        )


def _label_names(model: keras.Model) -> list[str] | None:
    for layer in model.layers:
        if getattr(layer, "label_names", None) is not None:
            return list(layer.label_names)
    return None


def losses_of(
    student: keras.Model, terms: Mapping[str, keras.losses.Loss] | None
) -> dict[str, keras.losses.Loss]:
    """Return the losses of the terms, the default one where none is given."""
    if terms is None:
        has_logits = any(isinstance(x, _LOGIT_HEADS) for x in student.layers)
        loss = DistillationLoss() if has_logits else HiddenStateLoss("cosine")
        terms = {"output": loss}
    known = sorted(set(DEFAULT_WEIGHTS) - {"label"})
    if not terms or not set(terms) <= set(known):
        raise ValueError(
            f"`terms` must have some of the keys {known}. "
            f"Received: terms={dict(terms)!r}"
        )
    for term, loss in terms.items():
        if not isinstance(loss, keras.losses.Loss):
            raise TypeError(
                "The values of `terms` must be losses. Received: "
                f"terms[{term!r}]={loss!r}"
            )
    if isinstance(terms.get("output"), DistillationLoss):
        _check_single_label(student)
    return dict(terms)


def _check_single_label(student: keras.Model) -> None:
    """Refuse a softmax over what is no choice of one class."""
    for layer in student.layers:
        problem = getattr(layer, "problem_type", None)
        if isinstance(layer, ReplacedTokenHead) or problem not in _SINGLE_LABEL:
            raise ValueError(
                "`DistillationLoss` is for logits of one class of several. "
                'Use terms={"output": HiddenStateLoss("mean_squared")} here. '
                f"Received: a student with {layer.name!r}, "
                f"problem_type={problem!r}"
            )


def output_sizes(
    student: keras.Model,
    teacher: keras.Model,
    terms: Mapping[str, keras.losses.Loss],
) -> tuple[int, int]:
    """Return the last axis of the student's and of the teacher's output.

    Raises:
        ValueError: if the "output" term cannot compare them.
    """
    ours, theirs = (
        {name: x.shape for name, x in model.output.items()}
        if isinstance(model.output, dict)
        else {"": model.output.shape}
        for model in (student, teacher)
    )
    sizes = [(ours[k][-1], theirs[k][-1]) for k in ours if k in theirs]
    # A loss that compares classes cannot have them mixed first.
    must_equal = "" not in ours or isinstance(
        terms.get("output"), DistillationLoss
    )
    if "output" in terms and (
        {k: len(shape) for k, shape in ours.items()}
        != {k: len(shape) for k, shape in theirs.items()}
        or (must_equal and any(a != b for a, b in sizes))
    ):
        raise ValueError(
            "The outputs of student and teacher must have the same names and "
            "sizes; encoders of different sizes can be compared by the "
            f'"hidden" term. Received: {ours} of the student, {theirs} of '
            "the teacher"
        )
    return sizes[0] if sizes else (0, 0)


def factors_of(
    terms: Mapping[str, keras.losses.Loss], weights: Mapping[str, float] | None
) -> dict[str, float]:
    """Return the factors of the terms, the default ones where not given."""
    weights = weights or {}
    known = ["label", *terms]
    if not set(weights) <= set(known):
        raise ValueError(
            f"`term_weights` must have keys of {known}, the terms in use. "
            f"Received: term_weights={dict(weights)!r}"
        )
    for term, weight in weights.items():
        if not 0 <= weight < float("inf"):
            raise ValueError(
                "`term_weights` must be numbers of at least 0. Received: "
                f"term_weights[{term!r}]={weight!r}"
            )
    return {term: weights.get(term, DEFAULT_WEIGHTS[term]) for term in known}


def layer_pairs(
    name: str,
    layers: Mapping[int, int] | None,
    default: Mapping[int, int],
    num_layers: tuple[int, int],
) -> tuple[tuple[int, int], ...]:
    """Return pairs of a block of the student and one of the teacher."""
    pairs = tuple((default if layers is None else layers).items())
    if not pairs or not all(
        isinstance(index, int) and 0 <= index < number
        for pair in pairs
        for index, number in zip(pair, num_layers, strict=True)
    ):
        raise ValueError(
            f"`{name}` must map blocks of the student, in "
            f"[0, {num_layers[0]}), to blocks of the teacher, in "
            f"[0, {num_layers[1]}). Received: {name}={layers!r}"
        )
    return pairs


def even_layers(num_student: int, num_teacher: int) -> dict[int, int]:
    """Map blocks evenly, the student's last to the teacher's last.

    As TinyBERT does; a teacher with fewer blocks than the student teaches
    some of them twice.
    """
    # The share of the depth that a block ends, rounded up.
    return {
        i: -(-(i + 1) * num_teacher // num_student) - 1
        for i in range(num_student)
    }
