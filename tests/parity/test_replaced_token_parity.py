"""ELECTRA's discriminator, alone and with its generator, live."""

import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

torch = pytest.importorskip("torch", reason="pip install keras-kbert[parity]")
transformers = pytest.importorskip(
    "transformers", reason="pip install keras-kbert[parity]"
)

import kbert  # noqa: E402

for folder in ("golden", "checkpoints"):
    sys.path.append(str(Path(__file__).parents[1] / folder))

from electra_files import (  # noqa: E402
    google_tensors,
    with_slots,
    write_checkpoint,
)
from family_models import (  # noqa: E402
    largest_difference,
    make_inputs,
    make_model,
    our_outputs,
    their_outputs,
)


@pytest.mark.parametrize("name", ["electra", "electra_base"])
def test_loss_of_real_tokens(name, tmp_path):
    theirs = make_model(name, "ForPreTraining", seed=2)
    theirs.save_pretrained(tmp_path)
    ours = kbert.load_replaced_token_detector(tmp_path)
    inputs = make_inputs(theirs)
    mask = inputs["padding_mask"]
    assert 0 < mask.sum() < mask.size
    labels = np.random.default_rng(0).integers(0, 2, mask.shape)
    with torch.no_grad():
        expected = theirs(
            input_ids=torch.tensor(inputs["token_ids"]).long(),
            token_type_ids=torch.tensor(inputs["segment_ids"]).long(),
            attention_mask=torch.tensor(mask).long(),
            labels=torch.tensor(labels),
        ).loss.item()
    loss, logits = kbert.losses.ReplacedTokenLoss(), ours(inputs)
    assert float(loss(labels, logits, mask)) == pytest.approx(
        expected, abs=1e-5
    )
    every = float(loss(labels, logits))
    assert abs(every - expected) > 1e-2  # padding would show


@pytest.mark.parametrize("width", [64, 128])
def test_googles_file_of_both(width, tmp_path):
    """What the two compute, after Google's names and without a config."""
    sizes = {"vocab_size": 50, "max_position_embeddings": 20}
    sizes |= {"embedding_size": 16, "num_hidden_layers": 2}
    theirs = {
        "discriminator": draw("ForPreTraining", 128, **sizes),
        "generator": draw("ForMaskedLM", width, **sizes),
    }
    table = theirs["discriminator"].electra.embeddings
    theirs["generator"].electra.embeddings.load_state_dict(table.state_dict())
    both = {}
    for role, model in theirs.items():
        tensors = {k: v.numpy() for k, v in model.state_dict().items()}
        tensors.pop("electra.embeddings.position_ids", None)
        both |= google_tensors(tensors, role)
    write_checkpoint(tmp_path / "model.ckpt-7", with_slots(both))
    ours = {
        "discriminator": kbert.load_replaced_token_detector(tmp_path),
        "generator": kbert.load_masked_lm(tmp_path, all_positions=True),
    }
    inputs = make_inputs(theirs["generator"])
    for role, model in ours.items():
        expected = their_outputs(theirs[role], inputs)
        found = our_outputs(model, inputs)
        mask = inputs["padding_mask"]
        assert largest_difference(found, expected, mask) < 1e-5
    (tmp_path / "electra_config.json").write_text('{"num_attention_heads": 1}')
    other = kbert.load_replaced_token_detector(tmp_path / "model.ckpt-7")
    expected = their_outputs(theirs["discriminator"], inputs)
    found = our_outputs(other, inputs)
    assert largest_difference(found, expected, mask) > 1e-3


def pretrainer(embedding_size):
    """Both encoders, all weights random, biases and norms too."""
    keras.utils.set_random_seed(0)
    config = kbert.EncoderConfig(
        vocab_size=50,
        hidden_size=16,
        num_layers=2,
        num_heads=2,
        intermediate_size=24,
        max_positions=20,
        embedding_size=embedding_size,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        has_pooler=False,
        family="electra",
    )
    model = kbert.build_replaced_token_pretrainer(
        kbert.build_encoder(config), generator_size=0.5
    )
    rng = np.random.default_rng(0)
    for weight in model.trainable_variables:
        weight.assign(weight + rng.normal(0, 0.2, tuple(weight.shape)))
    return model


def masked_rows():
    """Inputs of a pretrainer, and labels as transformers wants them."""
    rng = np.random.default_rng(0)
    original = rng.integers(5, 50, (3, 9))
    mask = np.arange(9) < np.array([9, 6, 4])[:, None]
    positions = np.array([[2, 5, 8], [1, 4, 0], [3, 0, 0]])
    used = positions > 0
    rows, slots = np.nonzero(used)
    masked, every = original * mask, np.full(original.shape, -100)
    labels = np.take_along_axis(original, positions, 1) * used
    masked[rows, positions[used]] = 4
    every[rows, positions[used]] = labels[used]
    x = {
        "token_ids": masked,
        "segment_ids": (original % 2) * mask,
        "padding_mask": mask,
        "mask_positions": positions,
        "original_ids": labels,
    }
    return {k: v.astype("int32") for k, v in x.items()}, used, every


def given(x, **others):
    inputs = {
        "input_ids": x["token_ids"],
        "token_type_ids": x["segment_ids"],
        "attention_mask": x["padding_mask"],
        **others,
    }
    return {k: torch.tensor(v).long() for k, v in inputs.items()}


# Tables wider than the generator, as wide, and as wide as the discriminator.
@pytest.mark.parametrize("embedding_size", [12, 8, None])
def test_pretraining_with_the_same_draws(embedding_size, tmp_path):
    """Logits, losses and the gradients of the tables, tied in torch too."""
    model = pretrainer(embedding_size)
    kbert.save_pretrained(kbert.generator_of(model), tmp_path / "generator")
    kbert.save_pretrained(kbert.discriminator_of(model), tmp_path / "other")
    generator = transformers.ElectraForMaskedLM.from_pretrained(
        tmp_path / "generator"
    ).eval()
    discriminator = transformers.ElectraForPreTraining.from_pretrained(
        tmp_path / "other"
    ).eval()
    tables = discriminator.electra.embeddings
    generator.electra.embeddings = tables
    generator.generator_lm_head.weight = tables.word_embeddings.weight
    x, used, every = masked_rows()

    sampler = model.get_layer("replaced_token_sampler")
    state = ops.convert_to_numpy(sampler.seed_generator.state)
    both = keras.Model(model.input, [sampler.output, model.output])
    (is_replaced, drawn), ours = both(x)
    is_replaced = ops.convert_to_numpy(is_replaced)
    drawn = ops.convert_to_numpy(drawn)
    mask = x["padding_mask"]
    assert 0 < is_replaced.sum() <= used.sum()
    theirs = generator(**given(x, labels=every))
    answers = discriminator(
        **given(x | {"token_ids": drawn}, labels=is_replaced)
    )

    found = ops.convert_to_numpy(ours["mlm"])[used]
    rows, slots = np.nonzero(used)
    expected = theirs.logits[rows, x["mask_positions"][used]].detach().numpy()
    assert np.abs(found - expected).max() < 1e-5
    found = ops.convert_to_numpy(ours["replaced_token"])
    expected = answers.logits.detach().numpy() * (1 - 2 * is_replaced)
    assert np.abs(found - expected)[mask == 1].max() < 1e-5

    rate = 0.01
    model.compile(
        keras.optimizers.SGD(rate),
        loss={
            "mlm": kbert.losses.MaskedLMLoss(),
            "replaced_token": kbert.losses.ReplacedTokenLoss(),
        },
        loss_weights={"mlm": 1.0, "replaced_token": 50.0},
    )
    sampler.seed_generator.state.assign(state)
    before = {v.path: ops.convert_to_numpy(v) for v in model.weights}
    shown = model.train_on_batch(
        x,
        {"mlm": x["original_ids"], "replaced_token": 0 * mask},
        {"mlm": used.astype("float32"), "replaced_token": mask * 1.0},
        return_dict=True,
    )
    assert shown["mlm_loss"] == pytest.approx(theirs.loss.item(), abs=1e-5)
    assert shown["replaced_token_loss"] == pytest.approx(
        answers.loss.item(), abs=1e-5
    )
    (theirs.loss + 50 * answers.loss).backward()
    after = {v.path: ops.convert_to_numpy(v) for v in model.weights}
    for ours, module in {
        "token": tables.word_embeddings,
        "position": tables.position_embeddings,
        "segment": tables.token_type_embeddings,
    }.items():
        path = f"embedding/{ours}/embeddings"
        gradient = (before[path] - after[path]) / rate
        expected = module.weight.grad.numpy()
        # transformers gives the padding's row no gradient from look-ups.
        np.testing.assert_allclose(
            gradient[1:], expected[1:], rtol=1e-3, atol=1e-3
        )
        assert np.abs(expected).max() > 0.1


def draw(head, width, **sizes):
    """A random model with the heads that Google's code gives a width."""
    torch.manual_seed(width + len(head))
    config = transformers.ElectraConfig(
        hidden_size=width,
        num_attention_heads=width // 64,
        intermediate_size=2 * width,
        initializer_range=0.05,
        **sizes,
    )
    model = getattr(transformers, f"Electra{head}")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    return model
