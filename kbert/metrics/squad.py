"""SQuAD's official scores of answers, from strings."""

import re
import string
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

PUNCTUATION = str.maketrans("", "", string.punctuation)
ARTICLES = re.compile(r"\b(a|an|the)\b")


class _Scores(NamedTuple):
    """One question's exact match and F1, 0 to 1."""

    exact: float
    f1: float


def squad_scores(
    predictions: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    no_answer_probabilities: Mapping[str, float] | None = None,
    threshold: float = 1.0,
    *,
    version: str = "2.0",
) -> dict[str, float]:
    """Score answers as SQuAD's official scripts do.

    Answers are compared without case, ASCII punctuation, articles and spare
    white space; of several gold answers the best counts, for exact match and
    for F1 of the words each on its own.

    Args:
        predictions: question id → answer; "" says that there is none. Those
            of questions that `references` has not are not looked at.
        references: question id → gold answers; an empty list where the
            question has none.
        no_answer_probabilities: question id → how sure the model is that
            there is no answer: any number, a difference of logits too.
        threshold: where the above is larger, "no answer" takes the place of
            the prediction.
        version: "2.0", evaluate-v2.0.py; or "1.1", evaluate-v1.1.py, which
            knows no question without an answer, does not pass over gold
            answers such as "A", of which nothing is left, and gives those an
            F1 of 0.

    Returns:
        A dict with the script's keys and percentages: `exact`, `f1` and
        `total`; with version 2.0, of the questions that have an answer and
        of those that have none, where there are any, `HasAns_exact`, … and
        `NoAns_exact`, …; and with `no_answer_probabilities` `best_exact`,
        `best_f1` and their thresholds `best_exact_thresh`, `best_f1_thresh`.

    Raises:
        TypeError: if the gold answers of a question are a string, or a
            prediction is none.
        ValueError: if there is no question; a question has no prediction or
            no probability (the scripts pass over it or count it as wrong);
            the version is not known, or does not have what is asked of it.

    Example:
        >>> import kbert
        >>> scores = kbert.metrics.squad_scores(
        ...     predictions={"1": "the red car.", "2": ""},
        ...     references={"1": ["Red car", "car"], "2": []},
        ... )
        >>> scores["exact"], scores["HasAns_f1"]
        (100.0, 100.0)

    References:
        evaluate-v1.1.py and evaluate-v2.0.py, from
        https://rajpurkar.github.io/SQuAD-explorer/
    """
    probabilities = no_answer_probabilities
    _check(predictions, references, probabilities, version)
    raw = {
        id_: _score(predictions[id_], golds, version)
        for id_, golds in references.items()
    }
    scores = dict(raw)
    if probabilities is not None:
        for id_, golds in references.items():
            if probabilities[id_] > threshold:
                right = float(not golds)
                scores[id_] = _Scores(right, right)
    result = _means(scores.values())
    if version == "1.1":
        return result
    for prefix, has_answer in (("HasAns", True), ("NoAns", False)):
        part = [
            score
            for id_, score in scores.items()
            if bool(references[id_]) is has_answer
        ]
        if part:
            means = _means(part)
            result.update({f"{prefix}_{k}": v for k, v in means.items()})
    if probabilities is not None:
        for name in _Scores._fields:
            values = {id_: getattr(score, name) for id_, score in raw.items()}
            best, at = _best_threshold(
                predictions, references, probabilities, values
            )
            result[f"best_{name}"] = best
            result[f"best_{name}_thresh"] = at
    return result


def normalize_answer(text: str) -> str:
    """Return what of an answer is compared."""
    text = text.lower().translate(PUNCTUATION)
    return " ".join(ARTICLES.sub(" ", text).split())


def _score(prediction: str, golds: Sequence[str], version: str) -> _Scores:
    said = normalize_answer(prediction)
    texts = [normalize_answer(gold) for gold in golds]
    if version == "2.0":
        texts = [text for text in texts if text] or [""]
    return _Scores(
        float(max(text == said for text in texts)),
        max(_f1(text.split(), said.split(), version) for text in texts),
    )


def _f1(gold: list[str], said: list[str], version: str) -> float:
    if version == "2.0" and not (gold and said):
        return float(gold == said)
    shared = (Counter(gold) & Counter(said)).total()
    if shared == 0:
        return 0.0
    precision, recall = shared / len(said), shared / len(gold)
    return 2 * precision * recall / (precision + recall)


def _means(scores: Iterable[_Scores]) -> dict[str, float]:
    exact, f1 = zip(*scores, strict=True)
    total = len(exact)
    return {
        "exact": 100.0 * sum(exact) / total,
        "f1": 100.0 * sum(f1) / total,
        "total": total,
    }


def _best_threshold(
    predictions: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    probabilities: Mapping[str, float],
    scores: Mapping[str, float],
) -> tuple[float, float]:
    """Return the best mean score, and the threshold that gives it.

    From "no answer" to everything, one question after the other gets its
    prediction, those of one probability too: the script's way.
    """
    score = best = sum(not golds for golds in references.values())
    at = 0.0
    for id_ in sorted(probabilities, key=probabilities.__getitem__):
        if id_ not in scores:
            continue
        if references[id_]:
            score += scores[id_]
        elif predictions[id_]:
            score -= 1
        if score > best:
            best, at = score, probabilities[id_]
    return 100.0 * best / len(scores), at


def _check(
    predictions: Mapping[str, str],
    references: Mapping[str, Sequence[str]],
    probabilities: Mapping[str, float] | None,
    version: str,
) -> None:
    """Refuse what the scripts would pass over."""
    if version not in ("1.1", "2.0"):
        raise ValueError(
            f'`version` must be "1.1" or "2.0". Received: version={version!r}'
        )
    if not references:
        raise ValueError(f"There is no question. Received: {references!r}")
    for id_, golds in references.items():
        if isinstance(golds, str):
            raise TypeError(
                "The gold answers of a question are a list. Received: "
                f"{golds!r} for {id_!r}"
            )
        if version == "1.1" and not golds:
            raise ValueError(
                "SQuAD 1.1 has an answer to each question. Received: none for "
                f"{id_!r}"
            )
    if version == "1.1" and probabilities is not None:
        raise ValueError(
            "SQuAD 1.1 has no `no_answer_probabilities`. Received: "
            f"{len(probabilities)} of them"
        )
    sides: dict[str, Mapping[str, object]] = {"prediction": predictions}
    if probabilities is not None:
        sides["probability"] = probabilities
    for name, side in sides.items():
        missing = [id_ for id_ in references if id_ not in side]
        if missing:
            raise ValueError(
                f"Every question needs a {name}. Received: none for "
                f"{len(missing)} of {len(references)}, such as {missing[0]!r}"
            )
    for id_ in references:
        if not isinstance(predictions[id_], str):
            raise TypeError(
                "A prediction must be a string. Received: "
                f"{predictions[id_]!r} for {id_!r}"
            )
