"""Words for the masks of a text."""

from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from kbert.data.classification import report_truncated
from kbert.data.encoding import flatten
from kbert.data.texts import check_texts
from kbert.data.tokenizer import Tokenizer
from kbert.layers import MLMBias
from kbert.pipelines.masks import (
    Mask,
    check_mask_token,
    find_masks,
    mask_positions,
)
from kbert.pipelines.pieces import piece_text, word_ids
from kbert.pipelines.prediction import (
    check_options,
    predict,
    softmax,
)


class FillMask:
    """The most probable words for each mask of a text.

    A mask is the tokenizer's own mask token in the text, `[MASK]` or
    `<mask>`. Each is filled by itself: with several in a text, a prediction
    takes the others for unknown.

    Args:
        model: a model of `build_masked_lm` or `load_masked_lm`, or of
            `build_pretrainer` or `load_pretrainer`. One that was built with
            `all_positions` answers alike, but computes logits of every
            token, and keeps those of a batch in memory.
        tokenizer: the tokenizer it was trained with.
        top_k: most predictions for a mask.
        batch_size: texts in a batch.
        max_length: most tokens in a text; None for the most that both model
            and tokenizer take. Longer texts are truncated, with a log line,
            unless this cuts off a mask.

    Raises:
        TypeError: if `tokenizer` is no `kbert.Tokenizer`.
        ValueError: if the model has no masked-language head, the tokenizer
            is another model's or splits its mask token, or an option is out
            of range.

    Example:
        >>> import kbert
        >>> tokenizer = kbert.Tokenizer.from_vocab(
        ...     "[PAD] [UNK] [CLS] [SEP] [MASK] the film was good".split())
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_masked_lm(encoder)
        >>> fill = kbert.pipelines.FillMask(model, tokenizer)
        >>> answer = fill("The film was [MASK].", targets=["good"])
        >>> [mask] = answer["masks"]
        >>> mask["start"], mask["end"]
        (13, 19)
        >>> [prediction] = mask["predictions"]
        >>> sorted(prediction)
        ['score', 'sequence', 'token', 'token_id']
        >>> prediction["sequence"]
        'The film was good.'

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 3.1
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        *,
        top_k: int = 5,
        batch_size: int = 32,
        max_length: int | None = None,
    ):
        """See the class."""
        max_length = check_options(model, tokenizer, batch_size, max_length)
        _check_masked_lm(model)
        check_mask_token(tokenizer)
        if isinstance(top_k, bool) or not isinstance(top_k, (int, np.integer)):
            raise TypeError(
                f"`top_k` must be an int. Received: top_k={top_k!r}"
            )
        if top_k < 1:
            raise ValueError(
                f"`top_k` must be at least 1. Received: top_k={top_k}"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.top_k = top_k
        self.batch_size = batch_size
        self.max_length = max_length
        # The model's table may be longer, and ids may be left out.
        self._tokens = {i: t for t, i in tokenizer.get_vocab().items()}
        self._ids = np.array(sorted(self._tokens))

    def __call__(
        self,
        texts: str | Sequence[str],
        *,
        targets: Sequence[str] | None = None,
    ) -> dict[str, Any] | list[dict[str, Any]]:
        """Fill the masks of one text or many.

        Args:
            texts: a string, or N strings, each with one mask or more.
            targets: words to score, instead of the `top_k` best of the
                vocabulary. Each must be one token where the mask stands; a
                piece as the vocabulary writes it, such as "##ing", will do.

        Returns:
            For a string a dict, for N strings a list of N dicts: `text`, and
            `masks`, a list with a dict for each mask in order:

            - `start`, `end`: where in `text` the mask token stands, in code
              points.
            - `predictions`: a list of dicts, best first, the `top_k` or one
              for each target: `token`, the piece as the vocabulary has it;
              `token_id`; `score`, its probability among all tokens of the
              tokenizer, a float; `sequence`, `text` with this mask replaced
              by the piece and nothing else changed. The mark "##" goes; a
              space that belongs to the piece comes in front, unless there is
              white space already or the text begins.

        Raises:
            TypeError: if a text or target is no string.
            ValueError: if a text has no mask or loses one by truncation, or
                a target is not one token or named twice.
        """
        if targets is not None:
            targets = check_texts(targets, "targets")
            if not targets:
                raise ValueError("`targets` must hold words. Received: none")
        if isinstance(texts, str):
            return self._fill([texts], targets)[0]
        return self._fill(check_texts(texts, "texts"), targets)

    def _fill(
        self, texts: list[str], targets: list[str] | None
    ) -> list[dict[str, Any]]:
        encodings = self.tokenizer.encode_batch(
            texts, max_length=self.max_length
        )
        masks = find_masks(texts, encodings, self.tokenizer)
        encoded = flatten(encodings)
        report_truncated(encoded, self.max_length)
        # Before the model works: a wrong target need not wait for it.
        columns = self._target_columns(texts, masks, targets)
        results: list[dict[str, Any]] = [{} for _ in texts]
        for indices, outputs in predict(
            self.model,
            self.tokenizer,
            encoded,
            batch_size=self.batch_size,
            max_length=self.max_length,
            more_inputs=lambda batch: {
                "mask_positions": mask_positions(batch, masks)
            },
        ):
            logits = outputs["mlm"] if isinstance(outputs, dict) else outputs
            for index, rows in zip(indices, logits, strict=True):
                answers = self._answers(
                    texts[index], masks[index], rows, columns
                )
                results[index] = {"text": texts[index], "masks": answers}
        return results

    def _target_columns(
        self,
        texts: list[str],
        masks: list[list[Mask]],
        targets: list[str] | None,
    ) -> dict[str, np.ndarray]:
        """Columns of the targets, by the character before a mask."""
        columns = {}
        if targets is None:
            return columns
        for text, row in zip(texts, masks, strict=True):
            for mask in row:
                before = _character_before(text, mask)
                if before not in columns:
                    ids = word_ids(self.tokenizer, targets, before)
                    columns[before] = np.searchsorted(self._ids, ids)
        return columns

    def _answers(
        self,
        text: str,
        masks: list[Mask],
        logits: np.ndarray,
        columns: dict[str, np.ndarray],
    ) -> list[dict[str, Any]]:
        """Describe the masks of one text, given its logits (P, V)."""
        if "mask_positions" in self.model.input:
            logits = logits[: len(masks)]
        else:
            logits = logits[[mask.position for mask in masks]]
        answers = []
        scores = softmax(np.take(logits, self._ids, axis=1))
        for mask, row in zip(masks, scores, strict=True):
            chosen = columns.get(_character_before(text, mask))
            best = _best(row, self.top_k, chosen)
            predictions = [
                self._prediction(text, mask, column, row) for column in best
            ]
            place = {"start": mask.start, "end": mask.end}
            answers.append({**place, "predictions": predictions})
        return answers

    def _prediction(
        self, text: str, mask: Mask, column: int, scores: np.ndarray
    ) -> dict[str, Any]:
        token_id = int(self._ids[column])
        token = self._tokens[token_id]
        piece = piece_text(self.tokenizer, token)
        before = _character_before(text, mask)
        if not before or before.isspace():
            piece = piece.removeprefix(" ")
        return {
            "token": token,
            "token_id": token_id,
            "score": float(scores[column]),
            "sequence": text[: mask.start] + piece + text[mask.end :],
        }


def _check_masked_lm(model: keras.Model) -> None:
    has_head = any(isinstance(layer, MLMBias) for layer in model.layers)
    output = model.output
    if isinstance(output, dict):
        output = output.get("mlm")
    if not has_head or not isinstance(output, keras.KerasTensor):
        raise ValueError(
            "Expected a model of build_masked_lm, load_masked_lm, "
            "build_pretrainer or load_pretrainer. Received: "
            f"model={model!r}"
        )


def _character_before(text: str, mask: Mask) -> str:
    """Return what stands before a mask, or "" where the text begins."""
    return text[: mask.start][-1:]


def _best(
    scores: np.ndarray, count: int, columns: np.ndarray | None
) -> np.ndarray:
    """Return columns of the highest scores, the first of equals first."""
    if columns is None:
        count = min(count, len(scores))
        columns = np.argpartition(-scores, count - 1)[:count]
    return columns[np.lexsort((columns, -scores[columns]))]
