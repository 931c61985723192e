"""Labels of texts and of pairs of texts."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from kbert.checkpoints.translate import placeholder_names
from kbert.data.classification import report_truncated
from kbert.data.texts import check_texts
from kbert.data.tokenizer import Tokenizer
from kbert.layers import ClassificationHead
from kbert.pipelines.masks import MaskWarning
from kbert.pipelines.prediction import check_options, predict, softmax

ACTIVATIONS = ("softmax", "sigmoid", "linear")


class Classifier:
    """Labels and probabilities of texts.

    Texts are sorted by length, so that batches pad little, and answered in
    the order given.

    Args:
        model: a model of `build_classifier` or `load_classifier`.
        tokenizer: the tokenizer it was trained with.
        label_names: names of the classes; None for the model's own, or
            "LABEL_0", "LABEL_1", … where it has none.
        activation: from logits to scores: "softmax" for one label of
            several, "sigmoid" for each label by itself, "linear" for a
            regression's value. None for what the model's `problem_type`
            says; where it says nothing, "softmax" with several classes and
            "linear" with one.
        batch_size: texts in a batch.
        max_length: most tokens in a text; None for the most that both model
            and tokenizer take. Longer texts are truncated, with a log line.

    Raises:
        TypeError: if `tokenizer` is no `kbert.Tokenizer`.
        ValueError: if the model has no classification head, the tokenizer
            is another model's, or an option is out of range.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> names = ["no", "yes"]
        >>> model = kbert.build_classifier(encoder, 2, label_names=names)
        >>> tokenizer = kbert.Tokenizer.from_vocab(
        ...     ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good"])
        >>> classify = kbert.pipelines.Classifier(model, tokenizer)
        >>> sorted(classify("good"))
        ['label', 'score', 'scores', 'text']
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        *,
        label_names: Sequence[str] | None = None,
        activation: str | None = None,
        batch_size: int = 32,
        max_length: int | None = None,
    ):
        """See the class."""
        max_length = check_options(model, tokenizer, batch_size, max_length)
        head = _classification_head(model)
        if activation is None:
            activation = _default_activation(head)
        if activation not in ACTIVATIONS:
            raise ValueError(
                f"`activation` must be one of {ACTIVATIONS}. Received: "
                f"activation={activation!r}"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.label_names = _label_names(label_names, head)
        self.activation = activation
        self.batch_size = batch_size
        self.max_length = max_length
        self._warn_masks = MaskWarning(tokenizer)

    def __call__(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None = None,
    ) -> dict[str, Any] | list[dict[str, Any]]:
        """Classify one text or many.

        Args:
            texts: a string, or N strings.
            pairs: second texts of sentence pairs, in the same form.

        Returns:
            For a string a dict, for N strings a list of N dicts:
            `text`; `label`, the name with the highest score; `score`, that
            score as a float; `scores`, name → score of every class.

        Raises:
            TypeError: if a text is no string.
            ValueError: if `texts` and `pairs` differ in form or number.
        """
        if isinstance(texts, str) and (pairs is None or isinstance(pairs, str)):
            one_pair = None if pairs is None else [pairs]
            return self._classify([texts], one_pair)[0]
        if isinstance(texts, str) or isinstance(pairs, str):
            raise ValueError(
                "`texts` and `pairs` must both be strings or both be lists. "
                f"Received: texts={texts!r}, pairs={pairs!r}"
            )
        return self._classify(check_texts(texts, "texts"), pairs)

    def _classify(
        self, texts: list[str], pairs: Sequence[str] | None
    ) -> list[dict[str, Any]]:
        scores = self._scores(texts, pairs)
        results = []
        for text, row in zip(texts, scores, strict=True):
            best = int(row.argmax())
            results.append(
                {
                    "text": text,
                    "label": self.label_names[best],
                    "score": float(row[best]),
                    "scores": dict(
                        zip(self.label_names, row.tolist(), strict=True)
                    ),
                }
            )
        return results

    def _scores(
        self, texts: list[str], pairs: Sequence[str] | None
    ) -> np.ndarray:
        """Scores (N, C) in the order of the texts."""
        encoded = self.tokenizer.encode_ids(
            texts, pairs, max_length=self.max_length
        )
        report_truncated(encoded, self.max_length)
        self._warn_masks(encoded)
        logits = np.zeros((len(texts), len(self.label_names)), "float32")
        for indices, rows in predict(
            self.model,
            self.tokenizer,
            encoded,
            batch_size=self.batch_size,
            max_length=self.max_length,
        ):
            logits[indices] = rows
        return _activate(logits, self.activation)


def _classification_head(model: keras.Model) -> ClassificationHead:
    heads = [x for x in model.layers if isinstance(x, ClassificationHead)]
    if len(heads) != 1 or isinstance(model.output, (dict, list)):
        raise ValueError(
            "Expected a model of build_classifier or load_classifier. "
            f"Received: model={model!r}"
        )
    return heads[0]


def _default_activation(head: ClassificationHead) -> str:
    if head.problem_type is None:
        return "softmax" if head.num_classes > 1 else "linear"
    return {
        "single_label_classification": "softmax",
        "multi_label_classification": "sigmoid",
        "regression": "linear",
    }[head.problem_type]


def _label_names(
    label_names: Sequence[str] | None, head: ClassificationHead
) -> list[str]:
    if label_names is None:
        label_names = head.label_names or placeholder_names(head.num_classes)
    if isinstance(label_names, str) or not (
        len(set(label_names)) == len(label_names) == head.num_classes
    ):
        raise ValueError(
            f"`label_names` must hold {head.num_classes} different names. "
            f"Received: label_names={label_names!r}"
        )
    return list(label_names)


def _activate(logits: np.ndarray, activation: str) -> np.ndarray:
    if activation == "softmax":
        return softmax(logits)
    if activation == "sigmoid":
        return 0.5 * (1.0 + np.tanh(0.5 * logits))  # no overflow either way
    return logits
