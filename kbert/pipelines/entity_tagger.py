"""Entities of texts, and tags of words."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import keras
import numpy as np

from kbert.data.texts import as_list, check_texts, check_words
from kbert.data.token_labels import TextPieces, text_pieces
from kbert.data.tokenizer import Tokenizer
from kbert.data.truncation import check_truncation
from kbert.layers import TokenClassificationHead
from kbert.pipelines.labels import class_names
from kbert.pipelines.prediction import check_options
from kbert.pipelines.tags import TagScheme
from kbert.pipelines.token_scores import (
    AGGREGATIONS,
    piece_scores,
    vote,
)
from kbert.pipelines.words import group_pieces, split_words


class EntityTagger:
    """Entities of texts of any length, or tags of words.

    A text over `max_length` is read in windows that share tokens, and each
    token is judged in the window that shows most of what is around it. Then
    the tokens of a word vote for one label, so no word is cut in two.

    In a raw text, words end at white space and at punctuation; signs inside a
    word stay in it ("O'Neil", "U.S.", "x-ray", "3.14"), signs at its edge
    are words of their own ("(", ","), and so is "'s", as in CoNLL's files.
    Ideographs, and letters of scripts without spaces, are words by
    themselves, but no word is smaller than the tokenizer's piece. Where other
    words are wanted, split the text and use `tag_words`.

    Names such as "B-PER" mark entities in IOB1, IOB2, BIOES or BILOU; any
    sequence of them has a meaning, as in seqeval by default. Among names
    with "O", "PER" is read as "I-PER": equal neighbours are one entity.
    Where no name is "O" or has a prefix, as with parts of speech, every word
    is an item of its own.

    Args:
        model: a model of `build_token_classifier` or `load_token_classifier`.
        tokenizer: the tokenizer it was trained with.
        label_names: names of the classes; None for the model's own, or
            "LABEL_0", "LABEL_1", … where it has none.
        aggregation: how the tokens of a word vote: "first" takes the first,
            the one that models are trained on by default; "mean" the mean of
            their probabilities; "max" the one that is surest.
        batch_size: windows in a batch.
        max_length: most tokens in a window; None for the most that both
            model and tokenizer take.
        overlap: tokens that neighbouring windows share; None for a quarter
            of `max_length`.

    Raises:
        TypeError: if `tokenizer` is no `kbert.Tokenizer`, or a number no int.
        ValueError: if the model has no head for tokens, the tokenizer is
            another model's, or an option is out of range.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_token_classifier(
        ...     encoder, 2, label_names=["NOUN", "VERB"])
        >>> tokenizer = kbert.Tokenizer.from_vocab(
        ...     ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "dogs", "run"])
        >>> tag = kbert.pipelines.EntityTagger(model, tokenizer)
        >>> [(item["text"], item["start"], item["end"])
        ...  for item in tag("Dogs run.")]
        [('Dogs', 0, 4), ('run', 5, 8), ('.', 8, 9)]
        >>> len(tag.tag_words(["Dogs", "run", "."]))
        3

    References:
        Devlin et al., 2018, https://arxiv.org/abs/1810.04805, section 5.3
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        *,
        label_names: Sequence[str] | None = None,
        aggregation: str = "first",
        batch_size: int = 32,
        max_length: int | None = None,
        overlap: int | None = None,
    ):
        """See the class."""
        max_length = check_options(model, tokenizer, batch_size, max_length)
        head = _token_head(model)
        if aggregation not in AGGREGATIONS:
            raise ValueError(
                f"`aggregation` must be one of {AGGREGATIONS}. Received: "
                f"aggregation={aggregation!r}"
            )
        if overlap is None:
            overlap = max_length // 4
        check_truncation(
            max_length,
            "longest_first",
            overlap,
            has_pairs=False,
            num_special=tokenizer.num_special_tokens(),
        )
        self.model = model
        self.tokenizer = tokenizer
        self.label_names = class_names(label_names, head)
        self.aggregation = aggregation
        self.batch_size = batch_size
        self.max_length = max_length
        self.overlap = overlap
        self._scheme = TagScheme(self.label_names)

    def __call__(
        self, texts: str | Sequence[str]
    ) -> list[dict[str, Any]] | list[list[dict[str, Any]]]:
        """Find the entities of one text or many.

        Args:
            texts: a string, or N strings.

        Returns:
            For a string a list of dicts in the order of the text, for N
            strings N lists: `text`; `label`, the type without prefix;
            `score`, the mean over the words of the probability of their
            labels, a float; `start` and `end` in code points:
            `texts[start:end]` is `text`, with no white space at its ends.

        Raises:
            TypeError: if a text is no string.
        """
        if isinstance(texts, str):
            return self._find([texts])[0]
        return self._find(check_texts(texts, "texts"))

    def tag_words(
        self, words: Sequence[str] | Sequence[Sequence[str]]
    ) -> list[str] | list[list[str]]:
        """Tag every word of one sentence or many, of any length.

        Args:
            words: the words of a sentence, or N lists of words. One that the
                tokenizer has no pieces for, such as "", is read as its
                unknown token.

        Returns:
            The name of one class for each word, prefix included: a list, or
            N lists.

        Raises:
            TypeError: if a word is no string.
        """
        items = as_list(words, "words")
        if all(isinstance(item, str) for item in items):
            return self._tag([check_texts(items, "words")])[0]
        return self._tag(check_words(items, "words"))

    def _find(self, texts: list[str]) -> list[list[dict[str, Any]]]:
        pieces = self._pieces(texts)
        scores = self._scores(pieces)
        found = []
        for text, part in zip(texts, _parts(pieces, len(texts)), strict=True):
            spans, owners = group_pieces(
                split_words(text), pieces.span[part], pieces.word[part]
            )
            words, votes = vote(owners, scores[part], self.aggregation)
            found.append(self._entities(text, spans[words], votes))
        return found

    def _entities(
        self, text: str, spans: np.ndarray, scores: np.ndarray
    ) -> list[dict[str, Any]]:
        """Describe a text's entities, given words (W, 2) and scores (W, C)."""
        tags = scores.argmax(axis=1)
        best = scores.max(axis=1)
        entities = []
        for first, end in self._scheme.entities(tags).tolist():
            start_char, end_char = int(spans[first, 0]), int(spans[end - 1, 1])
            entities.append(
                {
                    "text": text[start_char:end_char],
                    "label": self._scheme.types[tags[first]],
                    "score": float(best[first:end].mean()),
                    "start": start_char,
                    "end": end_char,
                }
            )
        return entities

    def _tag(self, sentences: list[list[str]]) -> list[list[str]]:
        pieces = self._readable_pieces(sentences)
        scores = self._scores(pieces)
        tagged = []
        for part in _parts(pieces, len(sentences)):
            _, votes = vote(pieces.word[part], scores[part], self.aggregation)
            best = votes.argmax(axis=1).tolist()
            tagged.append([self.label_names[number] for number in best])
        return tagged

    def _readable_pieces(self, sentences: list[list[str]]) -> TextPieces:
        """Cut words into pieces, those that have none as the unknown token."""
        pieces = self._pieces(sentences)
        unknown = self.tokenizer.special_tokens["unk_token"]
        sentences, is_changed = list(sentences), False
        for index, part in enumerate(_parts(pieces, len(sentences))):
            words = sentences[index]
            missing = set(range(len(words))) - set(pieces.word[part].tolist())
            if missing:
                is_changed = True
                sentences[index] = [
                    unknown if number in missing else word
                    for number, word in enumerate(words)
                ]
        return self._pieces(sentences) if is_changed else pieces

    def _pieces(self, texts: list) -> TextPieces:
        return text_pieces(texts, self.tokenizer, self.max_length, self.overlap)

    def _scores(self, pieces: TextPieces) -> np.ndarray:
        return piece_scores(
            self.model,
            self.tokenizer,
            pieces,
            num_classes=len(self.label_names),
            batch_size=self.batch_size,
            max_length=self.max_length,
        )


def _parts(pieces: TextPieces, num_texts: int) -> list[slice]:
    """Say which pieces are of each text."""
    bounds = np.searchsorted(pieces.text, np.arange(num_texts + 1)).tolist()
    return [slice(*pair) for pair in pairwise(bounds)]


def _token_head(model: keras.Model) -> TokenClassificationHead:
    heads = [x for x in model.layers if isinstance(x, TokenClassificationHead)]
    if len(heads) != 1 or isinstance(model.output, (dict, list)):
        raise ValueError(
            "Expected a model of build_token_classifier or "
            f"load_token_classifier. Received: model={model!r}"
        )
    return heads[0]
