"""Pretrain a BERT on text: vocabulary, masked words, next sentence.

    python examples/pretrain.py

trains BERT-tiny on 65 short texts, to see it work; docs/pretraining.md has what
a model of use takes. A run that was stopped, by kill -9 too, goes on when its
command is given again, and ends with the same weights.

Measured on two CPU cores (AMD EPYC): 15 s; held-out loss 5.94, at random 7.16.
"""

import argparse
import json
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

import kbert

SEED, HELD_OUT, TEXTS = 0, 0.05, Path(__file__).parent / "data" / "everyday"


def prepare(args):
    """Return the tokenizer, a maker of batches, and batches to score."""
    texts = [x for path in args.data for x in kbert.data.read_documents(path)]
    order = np.random.default_rng(SEED).permutation(len(texts))
    cut = max(2, round(HELD_OUT * len(texts)))
    held_out, train = ([texts[i] for i in x] for x in np.split(order, [cut]))
    sentences = (sentence for document in train for sentence in document)
    tokenizer = kbert.Tokenizer.train(sentences, args.vocab_size)
    kind = dict(tokenizer=tokenizer, next_sentence=not args.no_nsp, seed=SEED)
    kind |= dict(batch_size=args.batch_size, max_length=args.max_length)
    make = partial(kbert.data.masked_lm_dataset, **kind)
    make_train = partial(make, train, shuffle=True, drop_remainder=True)
    # Masks drawn once, so that scores can be compared.
    return tokenizer, make_train, make(held_out, dupe_factor=1)


def pretrained(args, vocab_size, make_train, held_out):
    """Return a model, trained from the backup of a stopped run if it has."""
    config = getattr(kbert.families, f"BERT_{args.preset.upper()}")
    build = kbert.build_masked_lm if args.no_nsp else kbert.build_pretrainer
    model = build(kbert.build_encoder(replace(config, vocab_size=vocab_size)))
    loss = kbert.losses.MaskedLMLoss()
    score = [kbert.metrics.MaskedLMAccuracy()]
    if not args.no_nsp:
        loss = {"mlm": loss, "nsp": kbert.losses.NextSentenceLoss()}
        score = {"mlm": score, "nsp": kbert.metrics.NextSentenceAccuracy()}
    plan = {"train_steps": args.steps, "warmup": args.warmup}
    adamw = kbert.optimizers.adamw(args.learning_rate, **plan)
    model.compile(adamw, loss, weighted_metrics=score)
    make, output, steps = keras.callbacks, Path(args.output), adamw.iterations

    def seed_dropout(epoch, logs):  # A backup holds no such seeds.
        for seed in model.non_trainable_variables:
            seed.assign([seed.numpy()[0], steps.numpy() << 20])

    backup = make.BackupAndRestore(output / "backup", "epoch", True, False)
    others = [make.CSVLogger(output / "log.csv", append=True)]
    others += [make.LambdaCallback(on_epoch_begin=seed_dropout)]
    if find_spec("tensorboard"):
        others += [make.TensorBoard(output, write_graph=False)]
    # At once, not only in `fit`: the data goes on where the weights do.
    backup.set_model(model)
    backup.on_train_begin()
    print(f"{steps.numpy()} of {args.steps} steps done")
    batches = make_train(start_step=int(steps.numpy()))
    # An epoch of Keras is a round here, which may end in the middle of a pass.
    more = {"steps_per_epoch": args.round, "epochs": args.steps // args.round}
    more |= {"validation_data": held_out, "shuffle": False}
    model.fit(batches, callbacks=[*others, backup], **more)
    return model


def main():
    """Read the command line, prepare, train, save."""
    parser = argparse.ArgumentParser(description="Pretrain a BERT on text.")
    add = parser.add_argument
    add("--data", nargs="+", default=[str(TEXTS)], help="files or folders")
    add("--output", default="out/pretrained")
    add("--vocab-size", type=int, default=30000)
    add("--preset", choices=("tiny", "mini", "small", "base"), default="tiny")
    add("--no-nsp", action="store_true", help="masked words alone")
    add("--steps", type=int, default=200, help="rounded up to whole rounds")
    add("--round", type=int, default=20, help="steps until scores and backup")
    add("--batch-size", type=int, default=16)
    add("--max-length", type=int, default=128)
    add("--learning-rate", type=float, default=1e-3, help="its peak")
    add("--warmup", type=float, default=0.1, help="share of the steps")
    add("--policy", default="float32", help="such as mixed_bfloat16")
    add("--strategy", choices=("none", "mirrored"), default="none")
    add("--smoke", action="store_true", help="a few seconds, for tests")
    args = parser.parse_args()
    if args.smoke:
        args.steps, args.round, args.max_length = 12, 3, 32
    args.steps = -(-args.steps // args.round) * args.round
    output, mine = Path(args.output), json.dumps(vars(args))
    output.mkdir(parents=True, exist_ok=True)
    started = output / "arguments.json"
    if started.exists() and started.read_text() != mine:
        raise SystemExit(f"{started} is of another run: choose an --output")
    started.write_text(mine)
    keras.utils.set_random_seed(SEED)
    keras.config.set_dtype_policy(args.policy)
    tokenizer, *batches = prepare(args)
    strategy = tf.distribute.get_strategy()
    if args.strategy == "mirrored":
        strategy = tf.distribute.MirroredStrategy()
    with strategy.scope():
        model = pretrained(args, tokenizer.vocab_size, *batches)
    kbert.save_pretrained(model, output / "model", tokenizer=tokenizer)


if __name__ == "__main__":
    main()
