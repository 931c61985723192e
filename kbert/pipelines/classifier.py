"""Labels of texts and of pairs of texts."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from kbert.data.chunking import check_chunks, split_chunks
from kbert.data.chunks import report_left_out
from kbert.data.classification import report_truncated
from kbert.data.texts import check_texts, short_repr
from kbert.data.tokenizer import Tokenizer
from kbert.layers import ClassificationHead
from kbert.models.chunked import is_chunked
from kbert.pipelines.labels import class_names
from kbert.pipelines.long_texts import averaged, check_long, together
from kbert.pipelines.masks import MaskWarning
from kbert.pipelines.prediction import check_options, class_logits, softmax

ACTIVATIONS = ("softmax", "sigmoid", "linear")


class Classifier:
    """Labels and probabilities of texts.

    Texts are sorted by length, so that batches pad little, and answered in
    the order given.

    A text longer than the model reads at once is truncated or, with
    `long="chunk"`, read in windows. The logits of a text are then the mean
    over its windows, each weighted by the tokens that it shows better than
    its neighbours do, so that every token of the text counts once. A model
    of `build_chunked_classifier` is given all windows of a text together.

    Args:
        model: a model of `build_classifier`, `load_classifier` or
            `build_chunked_classifier`.
        tokenizer: the tokenizer it was trained with.
        label_names: names of the classes; None for the model's own, or
            "LABEL_0", "LABEL_1", … where it has none.
        activation: from logits to scores: "softmax" for one label of
            several, "sigmoid" for each label by itself, "linear" for a
            regression's value. None for what the model's `problem_type`
            says; where it says nothing, "softmax" with several classes and
            "linear" with one.
        batch_size: texts in a batch; windows with `long="chunk"`.
        max_length: most tokens in a text, or in a window; None for the most
            that both model and tokenizer take. A chunked model needs it: the
            `chunk_length` it was trained with.
        long: what happens to longer texts: "truncate", with a log line, or
            "chunk". None for "chunk" with a chunked model, else "truncate".
        overlap: tokens that neighbouring windows of a text share.
        max_chunks: most windows of a text that are read, the first ones,
            with a log line if there are more; None for all. A chunked model
            holds all windows of a text in memory at once.

    Raises:
        TypeError: if `tokenizer` is no `kbert.Tokenizer`.
        ValueError: if the model has no classification head, the tokenizer
            is another model's, an option is out of range, or options do not
            go together.

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
        long: str | None = None,
        overlap: int = 0,
        max_chunks: int | None = None,
    ):
        """See the class."""
        long = check_long(model, long, max_length, overlap, max_chunks)
        max_length = check_options(model, tokenizer, batch_size, max_length)
        if long == "chunk":
            check_chunks(tokenizer, max_length, overlap, max_chunks)
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
        self.label_names = class_names(label_names, head)
        self.activation = activation
        self.batch_size = batch_size
        self.max_length = max_length
        self.long = long
        self.overlap = overlap
        self.max_chunks = max_chunks
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
            ValueError: if `texts` and `pairs` differ in form or number, or
                there are pairs and `long="chunk"`.
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
        if self.long == "chunk":
            logits = self._logits_of_chunks(texts, pairs)
        else:
            logits = self._logits(texts, pairs)
        return _activate(logits, self.activation)

    def _logits_of_chunks(
        self, texts: list[str], pairs: Sequence[str] | None
    ) -> np.ndarray:
        if pairs is not None:
            raise ValueError(
                'long="chunk" reads single texts: of a pair it is not clear '
                f"which text to split. Received: pairs={short_repr(pairs)}"
            )
        chunks = split_chunks(
            texts,
            self.tokenizer,
            chunk_length=self.max_length,
            overlap=self.overlap,
            max_chunks=self.max_chunks,
        )
        report_left_out(chunks, self.max_chunks)
        self._warn_masks(chunks.encoded)
        run = together if is_chunked(self.model) else averaged
        return run(
            self.model,
            self.tokenizer,
            chunks,
            batch_size=self.batch_size,
            max_length=self.max_length,
        )

    def _logits(
        self, texts: list[str], pairs: Sequence[str] | None
    ) -> np.ndarray:
        encoded = self.tokenizer.encode_ids(
            texts, pairs, max_length=self.max_length
        )
        report_truncated(encoded, self.max_length)
        self._warn_masks(encoded)
        return class_logits(
            self.model,
            self.tokenizer,
            encoded,
            batch_size=self.batch_size,
            max_length=self.max_length,
        )


def _classification_head(model: keras.Model) -> ClassificationHead:
    heads = [x for x in model.layers if isinstance(x, ClassificationHead)]
    if len(heads) != 1 or isinstance(model.output, (dict, list)):
        raise ValueError(
            "Expected a model of build_classifier, load_classifier or "
            "build_chunked_classifier. "
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


def _activate(logits: np.ndarray, activation: str) -> np.ndarray:
    if activation == "softmax":
        return softmax(logits)
    if activation == "sigmoid":
        return 0.5 * (1.0 + np.tanh(0.5 * logits))  # no overflow either way
    return logits
