"""Vectors of texts."""

import itertools
import os
from collections.abc import Iterator, Mapping

import keras
import numpy as np
from tqdm import tqdm

from kbert.data.batching import Batch, BatchOptions, plan_epoch
from kbert.data.classification import InputBatches, report_truncated
from kbert.data.texts import Texts, check_texts
from kbert.data.token_batches import plan_by_tokens
from kbert.data.tokenizer import Tokenizer
from kbert.layers.sentence_head import check_prompts
from kbert.models import is_sentence_encoder, sentence_layers
from kbert.pipelines.masks import MaskWarning
from kbert.pipelines.prediction import check_options
from kbert.pipelines.vector_file import VectorFile
from kbert.pipelines.vectors import (
    check_dtype,
    check_ranges,
    quantize,
    shorten,
    similarity,
)

# Texts that are sorted by length and held as vectors at once.
_CHUNK = 16384
# Tokens in a batch: what a core's cache takes, and what keeps a card busy.
_CPU_TOKENS, _DEVICE_TOKENS = 1024, 32768


class Embedder:
    """Vectors of texts, for search, clustering and comparison.

    Texts are sorted by length, so that batches pad little, and answered in
    the order given. A vector does not depend on the other texts.

    Args:
        model: a model of `build_sentence_encoder` or
            `load_sentence_encoder`. With `dtype="mixed_bfloat16"` there it
            is faster, and vectors change in the third digit.
        tokenizer: the tokenizer it was trained with.
        batch_size: texts in a batch; None for as many as make 1,024 tokens
            on a CPU, 32,768 on another device.
        max_length: most tokens in a text; None for the model's own, or the
            most that both model and tokenizer take. Longer texts are
            truncated, with a log line.
        prompts: name → what goes before a text; None for the model's.
        default_prompt_name: the prompt of texts for which none is named;
            None, where `prompts` is None too, for the model's.

    Raises:
        TypeError: if `tokenizer` is no `kbert.Tokenizer`.
        ValueError: if the model is no sentence encoder, the tokenizer is
            another model's, or an option is out of range.

    Example:
        >>> import kbert
        >>> tokenizer = kbert.Tokenizer.from_vocab(
        ...     "[PAD] [UNK] [CLS] [SEP] [MASK] good bad".split())
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> model = kbert.build_sentence_encoder(encoder)
        >>> embed = kbert.pipelines.Embedder(model, tokenizer)
        >>> vectors = embed(["good", "bad", "good"])
        >>> vectors.shape
        (3, 128)
        >>> scores = embed.similarity(vectors, vectors)
        >>> bool(abs(scores[0, 2] - 1) < 1e-5)
        True

    References:
        Reimers & Gurevych, 2019, https://arxiv.org/abs/1908.10084; for
        `dimensions` Kusupati et al., 2022, https://arxiv.org/abs/2205.13147
    """

    def __init__(
        self,
        model: keras.Model,
        tokenizer: Tokenizer,
        *,
        batch_size: int | None = None,
        max_length: int | None = None,
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
    ):
        """See the class."""
        longest = check_options(model, tokenizer, batch_size or 1, max_length)
        layers = sentence_layers(model)
        if layers is None or not is_sentence_encoder(model):
            raise ValueError(
                "Expected a model of build_sentence_encoder or "
                f"load_sentence_encoder. Received: model={model!r}"
            )
        self._head = layers[-1]
        if prompts is None:
            prompts = self._head.prompts
            default_prompt_name = (
                default_prompt_name or self._head.default_prompt_name
            )
        if max_length is None:
            longest = min(longest, self._head.max_length or longest)
        self.model = model
        self.tokenizer = tokenizer
        self.batch_size = batch_size
        self.max_length = longest
        self.prompts = check_prompts(prompts, default_prompt_name)
        self.default_prompt_name = default_prompt_name
        self._warn_masks = MaskWarning(tokenizer)
        self._pad_to, self._tokens = _batching(model)

    def __call__(self, texts: str | Texts | Iterator[str]) -> np.ndarray:
        """Return vectors as `encode` does without options."""
        return self.encode(texts)

    def encode(
        self,
        texts: str | Texts | Iterator[str],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        dtype: str = "float32",
        dimensions: int | None = None,
        ranges: np.ndarray | None = None,
        output: str | os.PathLike | None = None,
        show_progress: bool = False,
    ) -> np.ndarray:
        """Make vectors of one text or many.

        Args:
            texts: a string, or N strings: a list, a column, a generator.
            prompt_name: which of `prompts` goes before each text; None for
                the default one, if there is one.
            prompt: a text to go before each instead, such as "".
            batch_size: texts in a batch; None for the object's.
            dtype: "float32", "bfloat16", "int8", "uint8", "binary" or
                "ubinary"; see `quantize`.
            dimensions: how many components to keep, the first ones, of a
                model trained for it; then normalised again where the model
                normalises. None for all.
            ranges: float (2, D) for "int8" and "uint8"; see `quantize`. None
                for those of these texts, which `output` cannot know.
            output: a `.npy` file to write, for more vectors than memory
                holds. With it a generator of texts is read piece by piece.
            show_progress: whether to show a progress bar on standard error.

        Returns:
            (D,) for a string, (N, D) for N in the order given; with `output`
            a memory map of the file. "binary" and "ubinary" have D / 8
            columns.

        Raises:
            TypeError: if a text is no string.
            ValueError: if an option is unknown or out of range.
        """
        check_dtype(dtype)
        width = self._width(dimensions)
        if ranges is not None:
            ranges = check_ranges(ranges, width)
        before = self._prompt(prompt_name, prompt)
        is_one = isinstance(texts, str)
        if is_one and output is not None:
            raise ValueError(
                "`output` is for many texts. Received: one string, "
                f"output={os.fspath(output)!r}"
            )
        # Ranges of all texts are known when all are there.
        is_late = dtype in ("int8", "uint8") and ranges is None
        if is_late and (is_one or output is not None):
            raise ValueError(
                f"{dtype!r} needs `ranges` for one text, and for texts that "
                "are written as they come. Received: ranges=None"
            )
        parts = self._parts(
            [texts] if is_one else texts,
            before,
            width,
            self.batch_size if batch_size is None else batch_size,
            show_progress,
        )
        if not is_late:
            parts = (quantize(x, dtype, ranges) for x in parts)
        none = np.zeros((0, width), "float32")
        none = none if is_late else quantize(none, dtype, ranges)
        if output is not None:
            return _write(parts, VectorFile(output, none.shape[1], none.dtype))
        found = np.concatenate([none, *parts])
        if is_late:
            found = quantize(found, dtype)
        return found[0] if is_one else found

    def similarity(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Compare vectors as the model was trained to.

        Args:
            a: float (N, D), or (D,) for one vector.
            b: float (M, D), or (D,).

        Returns:
            float32 (N, M), larger for what is more alike: the cosine, the
            product, or a distance times -1, as the model's head says.

        Raises:
            ValueError: if the shapes do not fit, or vectors are quantised to
                whole numbers.
        """
        return similarity(a, b, self._head.similarity)

    def _width(self, dimensions: int | None) -> int:
        """Components of a vector."""
        most = self.model.output_shape[-1]
        if dimensions is None:
            return most
        is_int = isinstance(dimensions, (int, np.integer))
        if not is_int or not 1 <= dimensions <= most:
            raise ValueError(
                f"`dimensions` must be an int from 1 to {most}. Received: "
                f"dimensions={dimensions!r}"
            )
        return int(dimensions)

    def _prompt(self, name: str | None, prompt: str | None) -> str:
        """What goes before each text."""
        if name is not None and prompt is not None:
            raise ValueError(
                "Give `prompt_name` or `prompt`. Received: "
                f"prompt_name={name!r}, prompt={prompt!r}"
            )
        if prompt is not None:
            return check_prompts({"prompt": prompt}, None)["prompt"]
        name = self.default_prompt_name if name is None else name
        if name not in (None, *self.prompts):
            raise ValueError(
                f"`prompt_name` must be one of {list(self.prompts)}. "
                f"Received: prompt_name={name!r}"
            )
        return "" if name is None else self.prompts[name]

    def _parts(
        self,
        texts: Texts | Iterator[str],
        before: str,
        width: int,
        batch_size: int | None,
        show_progress: bool,
    ) -> Iterator[np.ndarray]:
        """Vectors of some thousand texts at a time, float32 (n, width)."""
        total, chunks = _chunks(texts)
        with tqdm(
            total=total, disable=not show_progress, unit=" texts"
        ) as progress:
            for chunk in chunks:
                yield self._vectors(
                    [before + text for text in chunk],
                    width,
                    batch_size,
                    progress,
                )

    def _vectors(
        self,
        texts: list[str],
        width: int,
        batch_size: int | None,
        progress: tqdm,
    ) -> np.ndarray:
        encoded = self.tokenizer.encode_ids(texts, max_length=self.max_length)
        report_truncated(encoded, self.max_length)
        self._warn_masks(encoded)
        make_inputs = InputBatches(encoded, self.tokenizer)
        found = np.zeros((len(texts), width), "float32")
        for batch in self._plan(encoded.lengths, batch_size):
            inputs = make_inputs(batch)
            rows = self.model.predict_on_batch(
                {name: inputs[name] for name in self.model.input}
            )
            rows = np.asarray(rows)[: len(batch.indices)]
            if width < rows.shape[1]:
                rows = shorten(rows, width, self._head.normalize)
            found[batch.indices] = rows
            progress.update(len(batch.indices))
        return found

    def _plan(self, lengths: np.ndarray, batch_size: int | None) -> list[Batch]:
        options = BatchOptions(
            batch_size=1 if batch_size is None else batch_size,
            max_length=self.max_length,
            pad_to=self._pad_to,
        )
        if batch_size is None:
            return plan_by_tokens(lengths, options, self._tokens)
        # The plan that keeps an order, of lengths in order.
        order = np.argsort(lengths, kind="stable")
        plan = plan_epoch(lengths[order], options)
        return [Batch(order[x.indices], x.length) for x in plan]


def _batching(model: keras.Model) -> tuple[str, int]:
    """How a model's machine is fastest: how to pad, tokens in a batch.

    Where each shape is compiled, there must be few of them.
    """
    backend = keras.backend.backend()
    if backend == "torch":  # keras.distribution has nothing for it
        names = [str(model.variables[0].value.device)]
    else:
        names = keras.distribution.list_devices()
    is_cpu = all(name.startswith("cpu") for name in names)
    tokens = _CPU_TOKENS if is_cpu else _DEVICE_TOKENS
    is_compiled = backend == "jax" or not is_cpu
    return "bucket" if is_compiled else "batch", tokens


def _chunks(
    texts: Texts | Iterator[str],
) -> tuple[int | None, Iterator[list[str]]]:
    """How many texts there are, if that is known, and pieces of them."""
    if isinstance(texts, Iterator):
        pieces = iter(lambda: list(itertools.islice(texts, _CHUNK)), [])
        return None, (check_texts(piece, "texts") for piece in pieces)
    items = check_texts(texts, "texts")
    starts = range(0, len(items), _CHUNK)
    return len(items), (items[i : i + _CHUNK] for i in starts)


def _write(parts: Iterator[np.ndarray], file: VectorFile) -> np.ndarray:
    """Write parts to a file; an error leaves what was there before."""
    try:
        for part in parts:
            file.append(part)
    except BaseException:
        file.abandon()
        raise
    return file.close()
