"""Saves models as the TensorFlow 1 checkpoints of Google's BERT code."""

import os
from dataclasses import replace

import keras

from kbert.checkpoints import mapping, tf_checkpoint, tf_tables, tf_writer
from kbert.checkpoints.checkpoint import head_rows
from kbert.checkpoints.dialects import DIALECTS
from kbert.data.tokenizer import Tokenizer
from kbert.models import encoder_config
from kbert.saving import check_vocabulary, head_names, write_config


def save_tf_checkpoint(
    model: keras.Model,
    path: str | os.PathLike,
    tokenizer: Tokenizer | None = None,
) -> None:
    """Save a model in the layout of google-research/bert or /albert.

    Writes `bert_model.ckpt.index`, its `.data-00000-of-00001`,
    `bert_config.json` and, with a tokenizer, its files, `vocab.txt` among
    them; for ALBERT `model.ckpt-best.…` and `albert_config.json`. Google's
    scripts, `tf.train.load_checkpoint` and kbert's loaders read them. Heads
    have the names that `run_pretraining.py`, `run_classifier.py` and
    `run_squad.py` give them. Existing files of these names are replaced.

    Works on every backend, and needs TensorFlow. Labels' names go into the
    config, where Google's code takes no notice of them. The SentencePiece
    model that ALBERT's scripts want is not written: copy it from the source.
    Where a `config.json` lies too, loaders need the prefix: the directory
    then means Hugging Face's files.

    Args:
        model: an encoder or a task model of kbert's builders, of family
            "bert" or "albert".
        path: directory to write to, made if absent; or the prefix of a
            checkpoint in it, called `….ckpt` or `….ckpt-1200`.
        tokenizer: the tokenizer the model was trained with.

    Raises:
        NotADirectoryError: if the directory is a file.
        ValueError: if the model is none of kbert's, Google's layout has no
            names for its family or head, Google's code would compute
            something else, or the tokenizer has more ids than the model's
            embedding table.

    Example:
        >>> import kbert
        >>> encoder = kbert.build_encoder(kbert.families.BERT_TINY)
        >>> kbert.save_tf_checkpoint(encoder, "/tmp/tiny_tf")
        >>> kbert.load_encoder("/tmp/tiny_tf/bert_model.ckpt").name
        'encoder'
    """
    config = encoder_config(model)
    if tokenizer is not None:
        check_vocabulary(tokenizer, config)
    if config.family not in tf_checkpoint.FILES:
        raise ValueError(
            f"Google's layout is known for {sorted(tf_checkpoint.FILES)}. "
            f"Received: family={config.family!r}"
        )
    table = tf_tables.TF_TABLES[config.family]
    heads = head_names(model, config, table)
    if not set(heads) <= set(table.heads):
        raise ValueError(
            f"Google's layout has names for the heads {sorted(table.heads)}. "
            f"Received: heads {heads}"
        )
    rows = head_rows(table, heads, config, table.prefix)
    tensors = mapping.collect_tensors(model, rows)
    # A config.json has no word for "no projection", Google's equal sizes.
    sized = config
    if "embedding_size" in DIALECTS[config.family].fields:
        size = config.embedding_size or config.hidden_size
        sized = replace(config, embedding_size=size)
    google = tf_writer.config_to_google(config, write_config(model, sized, ""))
    prefix = tf_writer.find_target(path, config.family)
    tf_writer.write_checkpoint(prefix, tensors, google, config.family)
    if tokenizer is not None:
        tokenizer.save(prefix.parent)
