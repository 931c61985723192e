"""Hard negatives for the training of a sentence encoder, found by one."""

from collections.abc import Sequence

import numpy as np

from kbert.data.texts import Texts, check_texts, pair_up
from kbert.pipelines.embedder import Embedder

# Texts of the corpus that are held as vectors at once, and anchors that are
# compared with them at once: 64 MiB of scores.
_TEXTS, _ANCHORS = 16384, 1024


def mine_hard_negatives(
    embedder: Embedder,
    anchors: Sequence[str],
    positives: Sequence[str],
    corpus: Sequence[str] | None = None,
    *,
    num_negatives: int = 5,
    margin: float = 0.05,
    prompt_name: str | None = None,
    corpus_prompt_name: str | None = None,
    show_progress: bool = False,
) -> list[list[str]]:
    """Find texts that a model takes for an anchor's positive, and that are not.

    Those of the corpus with the highest similarity to the anchor, but for
    the anchor itself, every positive that it has in any row, and texts that
    are about as similar as the row's positive: many of them are right, too.

    The corpus is embedded piece by piece: memory holds the vectors of the
    anchors and of one piece.

    Args:
        embedder: with the model, best the one that will be trained.
        anchors: N strings, such as questions.
        positives: N strings that belong to them.
        corpus: where to look; None for the positives.
        num_negatives: most negatives of a row.
        margin: how much less similar than the positive a negative must be,
            in what `embedder.similarity` returns; for cosines usually 0.02
            to 0.1.
        prompt_name: which of the embedder's prompts goes before anchors.
        corpus_prompt_name: likewise before positives and corpus.
        show_progress: whether to show progress bars.

    Returns:
        N lists of at most `num_negatives` strings, the most similar first:
        the `negatives` of `data.sentence_pair_dataset`. A list is shorter,
        or empty, where the corpus has no more.

    Raises:
        TypeError: if a text is no string, or an option has the wrong type.
        ValueError: if anchors and positives differ in number, or an option
            is out of range.

    Example:
        >>> import kbert
        >>> tokenizer = kbert.Tokenizer.from_vocab(
        ...     "[PAD] [UNK] [CLS] [SEP] [MASK] good bad".split())
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_sentence_encoder(encoder)
        >>> embedder = kbert.pipelines.Embedder(model, tokenizer)
        >>> kbert.pipelines.mine_hard_negatives(
        ...     embedder, ["good"], ["good"], ["bad", "good"], margin=0.0)
        [['bad']]

    References:
        Xiong et al., 2021, https://arxiv.org/abs/2007.00808; for the margin
        Moreira et al., 2024, https://arxiv.org/abs/2407.15831
    """
    is_int = isinstance(num_negatives, (int, np.integer))
    if isinstance(num_negatives, bool) or not is_int or num_negatives < 1:
        raise ValueError(
            "`num_negatives` must be an int of at least 1. Received: "
            f"num_negatives={num_negatives!r}"
        )
    if not margin >= 0:
        raise ValueError(
            f"`margin` must be at least 0. Received: margin={margin!r}"
        )
    anchors = check_texts(anchors, "anchors")
    positives = check_texts(positives, "positives")
    pairs = pair_up(anchors, positives)
    # Once each, in order.
    texts = list(
        dict.fromkeys(
            positives if corpus is None else check_texts(corpus, "corpus")
        )
    )

    def embed(items: Texts, name: str | None) -> np.ndarray:
        return embedder.encode(
            items, prompt_name=name, show_progress=show_progress
        )

    vectors = embed(anchors, prompt_name)
    limits = _own_scores(
        embedder, vectors, embed(positives, corpus_prompt_name)
    )
    best = _Best(len(anchors), int(num_negatives))
    refused = _refused(pairs, texts)
    for start in range(0, len(texts), _TEXTS):
        part = embed(texts[start : start + _TEXTS], corpus_prompt_name)
        end = start + len(part)
        for first in range(0, len(anchors), _ANCHORS):
            rows = slice(first, first + _ANCHORS)
            scores = embedder.similarity(vectors[rows], part)
            scores[scores > limits[rows, None] - margin] = -np.inf
            inside = (refused[0] >= first) & (refused[0] < first + _ANCHORS)
            inside &= (refused[1] >= start) & (refused[1] < end)
            row, place = refused[:, inside]
            scores[row - first, place - start] = -np.inf
            best.add(rows, scores, start)
    return [[texts[i] for i in row] for row in best.places()]


class _Best:
    """The highest scores of each row so far, and where they are."""

    def __init__(self, num_rows: int, count: int):
        self._count = count
        self._scores = np.full((num_rows, count), -np.inf, "float32")
        self._places = np.zeros((num_rows, count), np.int64)

    def add(self, rows: slice, scores: np.ndarray, start: int) -> None:
        """Add scores of the texts from number `start` on."""
        count = min(self._count, scores.shape[1])
        top = np.argpartition(-scores, count - 1, axis=1)[:, :count]
        scores = np.take_along_axis(scores, top, axis=1)
        scores = np.concatenate([self._scores[rows], scores], axis=1)
        places = np.concatenate([self._places[rows], top + start], axis=1)
        # By score; of equal ones the first text.
        order = np.lexsort((places, -scores))[:, : self._count]
        self._scores[rows] = np.take_along_axis(scores, order, axis=1)
        self._places[rows] = np.take_along_axis(places, order, axis=1)

    def places(self) -> list[list[int]]:
        """Return each row's places, the highest score first."""
        return [
            places[scores > -np.inf].tolist()
            for scores, places in zip(self._scores, self._places, strict=True)
        ]


def _own_scores(
    embedder: Embedder, anchors: np.ndarray, positives: np.ndarray
) -> np.ndarray:
    """Similarity of each anchor and its positive, float32 (N,)."""
    scores = [
        embedder.similarity(anchor, positive)[0, 0]
        for anchor, positive in zip(anchors, positives, strict=True)
    ]
    return np.array(scores, "float32")


def _refused(pairs: list[tuple[str, str]], texts: list[str]) -> np.ndarray:
    """Rows and texts that are no negatives of theirs, int (2, R)."""
    numbers = {text: number for number, text in enumerate(texts)}
    known: dict[str, set[str]] = {}
    for anchor, positive in pairs:
        known.setdefault(anchor, {anchor}).add(positive)
    found = [
        (row, numbers[text])
        for row, (anchor, _) in enumerate(pairs)
        for text in known[anchor]
        if text in numbers
    ]
    return np.array(found, np.int64).reshape(-1, 2).T
