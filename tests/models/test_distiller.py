"""Distiller: what it trains, on which numbers, and that it can be resumed."""

from dataclasses import replace

import keras
import numpy as np
import pytest
from loss_reference import cross_entropy, softmax

import kbert
from kbert.losses import DistillationLoss, HiddenStateLoss, RelationLoss

ROWS, LENGTH, SLOTS, CLASSES = 4, 6, 2, 3
SPARSE = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def sentence_encoder(encoder):
    pool = kbert.layers.SentencePooling("mean", name="pooling")
    vectors = pool(
        encoder.output["sequence_output"],
        padding_mask=encoder.input["padding_mask"],
    )
    return keras.Model(encoder.input, vectors)


BUILDERS = {
    "classifier": lambda encoder: kbert.build_classifier(encoder, CLASSES),
    "token_classifier": lambda e: kbert.build_token_classifier(e, CLASSES),
    "span": kbert.build_span_model,
    "masked_lm": kbert.build_masked_lm,
    "pretrainer": kbert.build_pretrainer,
    "sentence_encoder": sentence_encoder,
    "encoder": lambda encoder: encoder,
}


def build(kind, config, seed=0):
    keras.utils.set_random_seed(seed)
    # Fresh weights of 0.02 would give all models nearly the same outputs.
    config = replace(
        config, initializer_range=0.2, has_pooler=kind != "encoder"
    )
    return BUILDERS[kind](kbert.build_encoder(config))


def draw(kind, config, rows=ROWS):
    """x, y and sample weights of a batch with padding."""
    rng = np.random.default_rng(0)
    ids = rng.integers(5, config.vocab_size, (rows, LENGTH)).astype("int32")
    mask = np.ones((rows, LENGTH), "int32")
    mask[::2, 4:] = 0
    x = {"token_ids": ids, "segment_ids": 0 * ids, "padding_mask": mask}
    labels = rng.integers(0, CLASSES, rows)
    slots = rng.integers(0, config.vocab_size, (rows, SLOTS))
    used = np.ones((rows, SLOTS), "float32")
    used[0, 1] = 0.0
    if kind in ("masked_lm", "pretrainer"):
        x["mask_positions"] = np.tile([[1, 3]], (rows, 1)).astype("int32")
    once = np.ones(rows, "float32")
    position = rng.integers(0, 4, rows)
    return {
        "classifier": (x, labels, None),
        "token_classifier": (x, ids % CLASSES, mask.astype("float32")),
        "span": (x, {"start": position, "end": position}, None),
        "masked_lm": (x, slots, used),
        "pretrainer": (
            x,
            {"mlm": slots, "nsp": labels % 2},
            {"mlm": used, "nsp": once},
        ),
        "sentence_encoder": (x, None, None),
        "encoder": (x, None, None),
    }[kind]


def label_loss(kind):
    if kind in ("sentence_encoder", "encoder"):
        return None
    if kind == "span":
        return {"start": SPARSE, "end": SPARSE}
    if kind == "pretrainer":
        return {
            "mlm": kbert.losses.MaskedLMLoss(),
            "nsp": kbert.losses.NextSentenceLoss(),
        }
    return kbert.losses.MaskedLMLoss() if kind == "masked_lm" else SPARSE


def values_of(model):
    return [np.array(v) for v in model.weights]


def is_same(before, after):
    return all(np.array_equal(a, b) for a, b in zip(before, after, strict=True))


@pytest.fixture
def configs(tiny_config):
    """Of a student, and of a teacher twice as deep."""
    return replace(tiny_config, num_layers=1), tiny_config


@pytest.mark.parametrize("kind", BUILDERS)
def test_every_kind_of_model_trains(kind, tiny_config):
    """All terms at once, teacher and student of different widths."""
    wide = replace(tiny_config, hidden_size=24, num_heads=3)
    student = build(kind, replace(tiny_config, num_layers=1))
    teacher = build(kind, wide, seed=1)
    terms = {"hidden": HiddenStateLoss(), "attention": RelationLoss(4)}
    if kind == "sentence_encoder":
        terms["output"] = HiddenStateLoss("mean_squared")
    elif kind != "encoder":
        terms["output"] = DistillationLoss()
    distiller = kbert.Distiller(student, teacher, terms)
    optimizer = keras.optimizers.Adam(3e-3)
    distiller.compile(optimizer, loss=label_loss(kind))
    x, y, w = draw(kind, tiny_config)
    before = values_of(teacher), values_of(student)
    history = distiller.fit(x, y, 2, sample_weight=w, epochs=4, verbose=0)
    for name, values in history.history.items():
        assert np.isfinite(values).all(), name
    assert set(history.history) >= {f"{term}_loss" for term in terms}
    losses = history.history["loss"]
    assert losses[-1] < losses[0]
    assert is_same(before[0], values_of(teacher))
    changed = [
        not np.array_equal(a, b)
        for a, b in zip(before[1], values_of(student), strict=True)
    ]
    assert sum(changed) > len(changed) / 2
    trained = {id(v) for v in distiller.trainable_variables}
    assert {id(v) for v in student.trainable_variables} <= trained
    assert not trained & {id(v) for v in teacher.weights}


def first_losses(distiller, x, y=None, w=None):
    """The losses of the first step, before anything has changed."""
    if not distiller.compiled:
        distiller.compile(keras.optimizers.SGD(0.0), loss=SPARSE)
    history = distiller.fit(
        x, y, len(x["token_ids"]), sample_weight=w, verbose=0
    )
    return {name: values[0] for name, values in history.history.items()}


def kl(teacher, student, temperature=2.0):
    p, q = softmax(teacher / temperature), softmax(student / temperature)
    return temperature**2 * np.sum(p * np.log(p / q), axis=-1)


def test_default_loss_in_numpy_with_the_teachers_dropout_off(configs):
    small, big = configs
    student = build("classifier", small)
    teacher = build("classifier", replace(big, hidden_dropout=0.5), seed=1)
    x, y, _ = draw("classifier", small)
    logits = [m.predict(x, verbose=0) for m in (teacher, student)]
    weights = np.array([1.0, 0.0, 2.0, 1.0], "float32")
    found = first_losses(kbert.Distiller(student, teacher), x, y, weights)
    hard = np.mean(weights * cross_entropy(y, logits[1]))
    soft = np.sum(weights * kl(*logits)) / 4
    assert found["label_loss"] == pytest.approx(hard, rel=1e-5)
    assert found["output_loss"] == pytest.approx(soft, rel=1e-5)
    assert found["loss"] == pytest.approx((hard + soft) / 2, rel=1e-5)


def test_the_students_dropout_is_on(configs):
    small, big = configs
    student = build("classifier", replace(small, hidden_dropout=0.5))
    distiller = kbert.Distiller(student, build("classifier", big, seed=1))
    x, y, _ = draw("classifier", small)
    one, two = (first_losses(distiller, x, y)["output_loss"] for _ in "ab")
    assert abs(one - two) > 1e-4


def test_span_softmax_leaves_out_padding(configs):
    small, big = configs
    student, teacher = build("span", small), build("span", big, seed=1)
    x, y, _ = draw("span", small)
    outputs = [m.predict(x, verbose=0) for m in (teacher, student)]
    expected = sum(
        np.mean(
            [
                kl(
                    *(
                        each[name][row][x["padding_mask"][row] > 0]
                        for each in outputs
                    )
                )
                for row in range(ROWS)
            ]
        )
        for name in ("start", "end")
    )
    distiller = kbert.Distiller(student, teacher)
    distiller.compile(
        keras.optimizers.SGD(0.0), loss={"start": SPARSE, "end": SPARSE}
    )
    found = first_losses(distiller, x, y)["output_loss"]
    assert found == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("with_weights", [True, False])
def test_only_tokens_that_count_teach(configs, with_weights):
    """Without weights those are the real ones."""
    small, big = configs
    kind = "token_classifier"
    student, teacher = build(kind, small), build(kind, big, seed=1)
    x, y, _ = draw(kind, small)
    w = np.zeros((ROWS, LENGTH), "float32")
    w[1, 2], w[3, 0] = 1.0, 3.0
    logits = [m.predict(x, verbose=0) for m in (teacher, student)]
    used = w if with_weights else x["padding_mask"]
    expected = np.sum(kl(*logits) * used) / np.sum(used)
    distiller = kbert.Distiller(student, teacher)
    found = first_losses(distiller, x, y, w if with_weights else None)
    assert found["output_loss"] == pytest.approx(expected, rel=1e-5)


def states_of(model, x):
    """What goes into and comes out of each application of a block."""
    states = [model.get_layer("embedding")(x["token_ids"], x["segment_ids"])]
    config = kbert.encoder_config(model)
    for index in config.block_order():
        block = model.get_layer(f"encoder_block_{index}")
        states.append(block(states[-1], padding_mask=x["padding_mask"]))
    return [np.array(keras.ops.convert_to_numpy(state)) for state in states]


@pytest.mark.parametrize("shared", [False, True])
def test_hidden_states_of_the_chosen_blocks(tiny_config, shared):
    """ALBERT's one block counts each time that it is applied."""
    config = replace(tiny_config, num_layers=4, shared_layers=shared)
    teacher = build("token_classifier", config, seed=1)
    student = build("token_classifier", replace(config, num_layers=2))
    x, y, w = draw("token_classifier", config)
    real = x["padding_mask"] > 0
    ours, theirs = (states_of(m, x) for m in (student, teacher))
    for chosen, pairs in (
        (None, [(0, 1), (1, 3)]),
        ({1: 2}, [(1, 2)]),
    ):
        distiller = kbert.Distiller(
            student,
            teacher,
            {"hidden": HiddenStateLoss("mean_squared")},
            hidden_layers=chosen,
        )
        expected = np.mean(
            [
                np.mean((ours[i + 1] - theirs[j + 1])[real] ** 2)
                for i, j in pairs
            ]
        )
        found = first_losses(distiller, x, y, w)["hidden_loss"]
        assert found == pytest.approx(expected, rel=1e-4)


def test_relations_of_the_last_blocks(configs):
    small, big = configs
    student, teacher = build("classifier", small), build("classifier", big, 1)
    x, y, _ = draw("classifier", small)
    loss, values = RelationLoss(2), []
    ours, theirs = states_of(student, x)[-2], states_of(teacher, x)[-2]
    for name in ("query", "key", "value"):
        projected = [
            getattr(m.get_layer(f"encoder_block_{i}").attention, name)(state)
            for m, i, state in ((teacher, 1, theirs), (student, 0, ours))
        ]
        values.append(float(loss(*projected, x["padding_mask"])))
    distiller = kbert.Distiller(student, teacher, {"attention": loss})
    found = first_losses(distiller, x, y)["attention_loss"]
    assert found == pytest.approx(np.mean(values), rel=1e-5)


def test_pre_norm_relations_read_normalised_states(tiny_config):
    config = replace(tiny_config, pre_norm=True)
    student, teacher = (build("classifier", config, seed) for seed in (0, 0))
    x, y, _ = draw("classifier", config)
    block = teacher.get_layer("encoder_block_1")
    # Equal weights, so equal relations, until the norm alone differs.
    terms = {"attention": RelationLoss(2)}
    distiller = kbert.Distiller(student, teacher, terms)
    assert first_losses(distiller, x, y)["attention_loss"] < 1e-6
    gamma = block.attention_layer_norm.gamma
    gamma.assign(np.linspace(-2, 2, gamma.shape[0]))
    assert first_losses(distiller, x, y)["attention_loss"] > 1e-3


def test_no_labels_and_a_teacher_to_follow(configs, tiny_tokenizer):
    small, big = configs
    teacher, student = (
        build("classifier", big, seed=1),
        build("classifier", small),
    )
    distiller = kbert.Distiller(student, teacher)
    distiller.compile(keras.optimizers.Adam(1e-2))
    data = kbert.data.classification_dataset(
        ["a good film", "bad , very bad", "the plot was not good !"] * 4,
        tokenizer=tiny_tokenizer,
        batch_size=4,
        max_length=16,
    )
    history = distiller.fit(data, epochs=15, shuffle=False, verbose=0).history
    assert history["output_loss"][-1] < 0.2 * history["output_loss"][0]
    assert history["loss"] == pytest.approx(
        0.5 * np.array(history["output_loss"])
    )


def test_evaluate_and_predict_are_the_students(configs):
    small, big = configs
    student, teacher = build("classifier", small), build("classifier", big, 1)
    x, y, _ = draw("classifier", small)
    distiller = kbert.Distiller(student, teacher)
    distiller.compile("sgd", loss=SPARSE, metrics=["accuracy"])
    history = distiller.fit(x, y, validation_data=(x, y), verbose=0).history
    assert sorted(history) == [
        "accuracy",
        "label_loss",
        "loss",
        "output_loss",
        "val_accuracy",
        "val_loss",
    ]
    student.compile("sgd", loss=SPARSE, metrics=["accuracy"])
    expected = student.evaluate(x, y, verbose=0, return_dict=True)
    found = distiller.evaluate(x, y, verbose=0, return_dict=True)
    assert found == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(
        distiller.predict(x, verbose=0),
        student.predict(x, verbose=0),
        atol=1e-6,
    )


def test_cached_logits_train_as_the_live_teacher(
    configs, tiny_tokenizer, tmp_path
):
    """Shuffled, in buckets, from a file."""
    small, big = configs
    teacher = build("classifier", big, seed=1)
    texts = ["good", "a bad , bad film", "the plot was not very good !"] * 5
    labels = [1, 0, 0] * 5
    options = dict(tokenizer=tiny_tokenizer, batch_size=4, max_length=16)
    dataset = kbert.data.classification_dataset
    np.save(
        tmp_path / "logits.npy",
        teacher.predict(dataset(texts, **options), verbose=0),
    )
    cached = np.load(tmp_path / "logits.npy", mmap_mode="r")
    results = []
    for is_live in (True, False):
        student = build("classifier", small)
        model, loss = student, DistillationLoss()
        if is_live:
            weights = {"label": 0.0, "output": 1.0}
            model, loss = (
                kbert.Distiller(student, teacher, term_weights=weights),
                SPARSE,
            )
        model.compile(keras.optimizers.SGD(0.1), loss=loss)
        train = dataset(
            texts, labels if is_live else cached, shuffle=True, **options
        )
        model.fit(train, epochs=2, shuffle=False, verbose=0)
        results.append(values_of(student))
    for live, from_file in zip(*results, strict=True):
        np.testing.assert_allclose(live, from_file, atol=1e-5)


ALL_TERMS = {
    "output": DistillationLoss(3.0),
    "hidden": HiddenStateLoss("mean_squared"),
    "attention": RelationLoss(2),
}


def compiled_distiller(configs, seed=0):
    small, big = configs
    wide = replace(big, hidden_size=24, num_heads=3)
    distiller = kbert.Distiller(
        build("classifier", small, seed),
        build("classifier", wide, seed + 1),
        ALL_TERMS,
        {"hidden": 0.3},
        hidden_layers={0: 0},
    )
    distiller.compile(keras.optimizers.Adam(1e-3), loss=SPARSE)
    return distiller


def test_weights_come_back(configs, tmp_path):
    x, y, _ = draw("classifier", configs[0])
    one, two = (compiled_distiller(configs, seed) for seed in (0, 5))
    one.fit(x, y, verbose=0)
    one.save_weights(tmp_path / "all.weights.h5")
    two.fit(x, y, verbose=0)
    two.load_weights(tmp_path / "all.weights.h5")
    assert is_same(values_of(one), values_of(two))
    assert len(one.weights) == len(one.student.weights) + 2 + len(
        one.teacher.weights
    )


def test_keras_file_holds_student_teacher_and_terms(configs, tmp_path):
    x, y, _ = draw("classifier", configs[0])
    one = compiled_distiller(configs)
    one.fit(x, y, verbose=0)
    one.save(tmp_path / "all.keras")
    two = keras.models.load_model(tmp_path / "all.keras")
    assert two.get_config()["terms"] == one.get_config()["terms"]
    assert two.hidden_layers == ((0, 0),)
    histories = [m.fit(x, y, epochs=2, verbose=0).history for m in (one, two)]
    for name, values in histories[0].items():
        assert histories[1][name] == pytest.approx(values, rel=1e-4), name


def test_interrupted_training_goes_on(configs, tmp_path):
    class Stop(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            if epoch == 2:
                raise KeyboardInterrupt

    x, y, _ = draw("classifier", configs[0])
    options = dict(epochs=4, verbose=0, shuffle=False, batch_size=2)
    whole = compiled_distiller(configs)
    whole.fit(x, y, **options)

    def backup():
        return keras.callbacks.BackupAndRestore(tmp_path / "backup")

    with pytest.raises(KeyboardInterrupt):
        compiled_distiller(configs).fit(
            x, y, callbacks=[backup(), Stop()], **options
        )
    resumed = compiled_distiller(configs, seed=7)
    history = resumed.fit(x, y, callbacks=[backup()], **options)
    assert history.epoch == [2, 3]
    for a, b in zip(values_of(whole), values_of(resumed), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_compiled_by_xla_and_in_half_precision(configs, policy):
    """XLA agrees with plain execution; terms are close in half precision."""
    before = keras.config.dtype_policy()
    x, y, _ = draw("classifier", configs[0])
    plain = compiled_distiller(configs)
    expected = plain.fit(x, y, verbose=0).history
    keras.config.set_dtype_policy(policy)
    try:
        distiller = compiled_distiller(configs)
    finally:
        keras.config.set_dtype_policy(before)
    distiller.compile(
        "sgd", loss=SPARSE, jit_compile=keras.backend.backend() != "torch"
    )
    found = distiller.fit(x, y, verbose=0).history
    tolerance = 1e-5 if policy == "float32" else 0.15
    for name, values in expected.items():
        assert found[name] == pytest.approx(values, rel=tolerance), name


def test_the_student_is_saved_alone(configs, tmp_path):
    small, big = configs
    student = build("classifier", small)
    distiller = kbert.Distiller(
        student, build("classifier", big, seed=1), ALL_TERMS
    )
    x, y, _ = draw("classifier", small)
    first_losses(distiller, x, y)
    kbert.save_pretrained(distiller.student, tmp_path)
    again = kbert.load_classifier(tmp_path)
    np.testing.assert_allclose(
        again.predict(x, verbose=0), student.predict(x, verbose=0), atol=1e-6
    )


def regression(config):
    return kbert.build_classifier(
        kbert.build_encoder(config), 1, problem_type="regression"
    )


def named(config, names):
    return kbert.build_classifier(
        kbert.build_encoder(config), 2, label_names=names
    )


@pytest.mark.parametrize(
    ("make", "match"),
    [
        (lambda a, b: kbert.Distiller(a, a), "share"),
        (lambda a, b: kbert.Distiller(a, b, {}), "terms"),
        (
            lambda a, b: kbert.Distiller(a, b, {"label": DistillationLoss()}),
            "terms",
        ),
        (lambda a, b: kbert.Distiller(a, b, {"output": "mse"}), "losses"),
        (
            lambda a, b: kbert.Distiller(a, b, term_weights={"hidden": 1.0}),
            "term_weights",
        ),
        (
            lambda a, b: kbert.Distiller(a, b, term_weights={"label": -1.0}),
            "term_weights",
        ),
        (
            lambda a, b: kbert.Distiller(a, b, hidden_layers={0: 2}),
            "hidden_layers",
        ),
        (
            lambda a, b: kbert.Distiller(a, b, attention_layers={1: 0}),
            "attention_layers",
        ),
        (
            lambda a, b: kbert.Distiller(
                a, kbert.build_classifier(kbert.build_encoder(_config(b)), 2)
            ),
            "outputs",
        ),
        (
            lambda a, b: kbert.Distiller(
                a, kbert.build_span_model(kbert.build_encoder(_config(b)))
            ),
            "outputs",
        ),
        (
            lambda a, b: kbert.Distiller(
                a,
                build("classifier", replace(_config(b), vocab_size=99)),
            ),
            "token ids",
        ),
        (
            lambda a, b: kbert.Distiller(
                regression(_config(a)), regression(_config(b))
            ),
            "one class",
        ),
        (
            lambda a, b: kbert.Distiller(
                named(_config(a), ["x", "y"]), named(_config(b), ["y", "x"])
            ),
            "same order",
        ),
        (
            lambda a, b: kbert.Distiller(keras.Sequential(), b),
            "`student` must be",
        ),
    ],
)
def test_bad_input(configs, make, match):
    student, teacher = (build("classifier", config) for config in configs)
    with pytest.raises((TypeError, ValueError), match=f"(?s){match}.*Received"):
        make(student, teacher)


def _config(model):
    return kbert.encoder_config(model)
