"""Precision, recall and F1 of entities, from strings."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from kbert.metrics.entity_rules import find_entities, make_rules


def entity_scores(
    true: Sequence[Sequence[str]],
    predicted: Sequence[Sequence[str]],
    *,
    mode: str = "default",
    scheme: str | None = None,
) -> dict[str, Any]:
    """Score whole entities, with seqeval's numbers.

    An entity is right if its type, first and last tag are.

    Args:
        true: a list of tags for each text, such as "B-PER" or "O".
        predicted: the same for what a model says.
        mode: "default" reads tags as the CoNLL-2000 script does and forgives:
            "I-PER" after "O" begins an entity, in any scheme. "strict" counts
            an entity only where the scheme allows it.
        scheme: of "strict": "IOB1", "IOB2", "IOE1", "IOE2", "IOBES" or
            "BILOU".

    Returns:
        A dict of dicts of `precision`, `recall`, `f1`, floats from 0 to 1,
        and `support`, the number of true entities: `micro` over all entities,
        `macro` the mean of the types, `weighted` their mean by support, and
        `types`, such a dict for each type. What would divide by 0 is 0.

    Raises:
        ValueError: if the two sides do not have the same lengths, a tag is
            none of the scheme, or mode and scheme do not fit.

    Example:
        >>> import kbert
        >>> true = [["B-PER", "I-PER", "O", "B-LOC"]]
        >>> predicted = [["B-PER", "I-PER", "O", "B-PER"]]
        >>> scores = kbert.metrics.entity_scores(true, predicted)
        >>> scores["micro"]
        {'precision': 0.5, 'recall': 0.5, 'f1': 0.5, 'support': 2}
        >>> scores["types"]["LOC"]["recall"]
        0.0

    References:
        seqeval 1.2.2, `classification_report`;
        https://www.clips.uantwerpen.be/conll2000/chunking/output.html
    """
    rules = make_rules(mode, scheme)
    lengths = [[len(tags) for tags in side] for side in (true, predicted)]
    if lengths[0] != lengths[1]:
        raise ValueError(
            "Every text needs as many predicted tags as true ones. Received: "
            f"{_first_difference(*lengths)}"
        )
    entities = [set(find_entities(side, rules)) for side in (true, predicted)]
    correct, said, support = (
        Counter(type_ for type_, _, _ in found)
        for found in (entities[0] & entities[1], entities[1], entities[0])
    )
    types = {
        type_: _ratios(correct[type_], said[type_], support[type_])
        for type_ in sorted(said | support)
    }
    total = support.total()
    return {
        "micro": _ratios(correct.total(), said.total(), total),
        "macro": _mean(types, dict.fromkeys(types, 1), total),
        "weighted": _mean(types, support, total),
        "types": types,
    }


def _ratios(correct: int, said: int, support: int) -> dict[str, Any]:
    precision = correct / said if said else 0.0
    recall = correct / support if support else 0.0
    total = precision + recall
    return {
        "precision": precision,
        "recall": recall,
        "f1": 2 * precision * recall / total if total else 0.0,
        "support": support,
    }


def _mean(
    types: dict[str, dict[str, Any]], weights: dict[str, int], support: int
) -> dict[str, Any]:
    total = sum(weights.values())
    means = {
        name: sum(weights[type_] * types[type_][name] for type_ in types)
        / (total or 1)
        for name in ("precision", "recall", "f1")
    }
    return {**means, "support": support}


def _first_difference(true: list[int], predicted: list[int]) -> str:
    if len(true) != len(predicted):
        return f"{len(true)} and {len(predicted)} texts"
    index = next(i for i, n in enumerate(true) if n != predicted[i])
    return f"text {index} with {true[index]} and {predicted[index]} tags"
