"""Writes the golden files: what transformers computes, for tests without it.

Run by hand, with the parity extra installed, when a case is added:

    python tests/golden/make_golden.py            # every case
    python tests/golden/make_golden.py bert       # one case
    python tests/golden/make_golden.py --paths    # kbert's variable paths
    python tests/golden/make_golden.py --bin      # a file of torch.save's

A case is a directory with transformers' own `config.json` and
`model.safetensors` and a `reference.safetensors` of float32 and int32 arrays:

- `input.*`: token_ids, segment_ids, padding_mask (B, S), and labels;
- `state.0` … `state.L` (B, S, H): the embeddings and every block's output;
- `pooled` (B, H), `logits` (B, C), `loss` ();
- `gradient.NAME`: of the loss, by transformers' parameter names;
- `updated.NAME`: the parameter after one step of AdamW, see `STEP`.

Dropout is off throughout (`eval`), whatever the config says.
"""

import argparse
import json
import os
from pathlib import Path

import numpy as np
import safetensors.torch
import torch
import transformers
from safetensors.numpy import save_file

HERE = Path(__file__).parent

# A decay of 0.01, as in training, would shrink a weight by 3e-6: too little
# for a test to see which weights decay.
STEP = {"learning_rate": 1e-3, "weight_decay": 0.5, "clipnorm": 1.0}

# transformers' defaults nowhere, so that a key kbert forgets to read shows.
CASES = {
    "bert": {
        "seed": 1,
        "vocab_size": 48,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 20,
        "type_vocab_size": 3,
        "layer_norm_eps": 1e-3,
        "hidden_dropout_prob": 0.15,
        "attention_probs_dropout_prob": 0.25,
        "classifier_dropout": 0.35,
        "pad_token_id": 5,
        "id2label": {0: "schlecht", 1: "so-so", 2: "gut ☺"},
        "problem_type": "single_label_classification",
    },
    "bert_gelu_new": {
        "seed": 2,
        "hidden_act": "gelu_new",
        "vocab_size": 40,
        "hidden_size": 12,
        "num_hidden_layers": 3,
        "num_attention_heads": 3,
        "intermediate_size": 20,
        "max_position_embeddings": 17,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
        "hidden_dropout_prob": 0.2,
        "attention_probs_dropout_prob": 0.05,
        "pad_token_id": 1,
        "id2label": {0: "score"},
        "problem_type": "regression",
    },
    "bert_multilabel": {
        "seed": 3,
        "hidden_act": "relu",
        "vocab_size": 60,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 32,
        "max_position_embeddings": 40,
        "type_vocab_size": 4,
        "layer_norm_eps": 1e-4,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "pad_token_id": 2,
        "id2label": {0: "a", 1: "b", 2: "c", 3: "d"},
        "problem_type": "multi_label_classification",
    },
}


def make_config(seed: int = 0, **values) -> transformers.BertConfig:
    """Make the config of a case; `seed` is only taken out of the values."""
    if "id2label" in values:
        names = values["id2label"].values()
        values["label2id"] = {name: i for i, name in enumerate(names)}
    return transformers.BertConfig(initializer_range=0.3, **values)


def randomise(model: torch.nn.Module, seed: int) -> None:
    """Draw every parameter: fresh biases are 0, fresh norms are 1."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in model.named_parameters():
        noise = torch.randn(parameter.shape, generator=generator)
        mean = 1.0 if name.endswith("LayerNorm.weight") else 0.0
        parameter.data.copy_(mean + 0.3 * noise)


def make_model(config: transformers.BertConfig, seed: int):
    """Build a classifier with random weights and dropout off."""
    model = transformers.BertForSequenceClassification(config)
    randomise(model, seed)
    return model.eval()


def make_batch(config: transformers.BertConfig, seed: int) -> dict:
    """Draw five rows: full and padded, of one text, two, or many segments."""
    rng = np.random.default_rng(seed)
    lengths, num_columns = (10, 7, 4, 10, 2), 10
    shape = (len(lengths), num_columns)
    # The embedding of the padding token has no gradient in torch, so no
    # real token may be one.
    ids = np.delete(np.arange(config.vocab_size), config.pad_token_id)
    mask = (np.arange(num_columns) < np.array(lengths)[:, None]).astype("int32")
    tokens = np.where(mask, rng.choice(ids, shape), config.pad_token_id)
    segments = np.arange(num_columns) // np.array([4, 5, 10, 2, 1])[:, None]
    segments = np.minimum(segments, config.type_vocab_size - 1) * mask
    labels = {
        "single_label_classification": rng.integers(0, config.num_labels, 5),
        "regression": rng.normal(size=(5, 1)),
        "multi_label_classification": rng.integers(
            0, 2, (5, config.num_labels)
        ),
    }[config.problem_type]
    single = config.problem_type == "single_label_classification"
    return {
        "token_ids": tokens.astype("int32"),
        "segment_ids": segments.astype("int32"),
        "padding_mask": mask,
        "labels": labels.astype("int32" if single else "float32"),
    }


def torch_inputs(batch: dict) -> dict:
    """Name a batch's inputs as transformers does."""
    return {
        "input_ids": torch.tensor(batch["token_ids"]).long(),
        "token_type_ids": torch.tensor(batch["segment_ids"]).long(),
        "attention_mask": torch.tensor(batch["padding_mask"]).long(),
    }


def compute_reference(model, batch: dict) -> dict[str, np.ndarray]:
    """Compute what `reference.safetensors` holds; steps the model once."""
    labels = torch.tensor(batch["labels"])
    outputs = model(
        **torch_inputs(batch),
        labels=labels.long() if labels.dtype == torch.int32 else labels,
        output_hidden_states=True,
    )
    pooled = model.bert.pooler(outputs.hidden_states[-1])
    outputs.loss.backward()
    arrays = {f"input.{name}": value for name, value in batch.items()}
    tensors = {f"state.{i}": x for i, x in enumerate(outputs.hidden_states)}
    tensors |= {"pooled": pooled, "logits": outputs.logits}
    tensors["loss"] = outputs.loss
    for name, parameter in model.named_parameters():
        tensors[f"gradient.{name}"] = parameter.grad.clone()
    step(model)
    for name, parameter in model.named_parameters():
        tensors[f"updated.{name}"] = parameter
    for name, tensor in tensors.items():
        arrays[name] = np.ascontiguousarray(tensor.detach().numpy())
    return arrays


def step(model: torch.nn.Module) -> None:
    """Take one step as `kbert.optimizers.adamw` does: see `STEP`."""
    decayed, spared = [], []
    for name, parameter in model.named_parameters():
        kept = name.endswith("bias") or "LayerNorm" in name
        (spared if kept else decayed).append(parameter)
    optimizer = torch.optim.AdamW(
        [{"params": decayed}, {"params": spared, "weight_decay": 0.0}],
        lr=STEP["learning_rate"],
        weight_decay=STEP["weight_decay"],
        eps=1e-6,
    )
    torch.nn.utils.clip_grad_norm_(model.parameters(), STEP["clipnorm"])
    optimizer.step()


def write_case(name: str, directory: Path) -> None:
    """Write one case."""
    seed = CASES[name]["seed"]
    config = make_config(**CASES[name])
    model = make_model(config, seed)
    model.save_pretrained(directory)
    (directory / "generation_config.json").unlink(missing_ok=True)
    save_file(
        compute_reference(model, make_batch(config, seed)),
        directory / "reference.safetensors",
        {
            "torch": torch.__version__,
            "transformers": transformers.__version__,
            **{key: str(value) for key, value in STEP.items()},
        },
    )
    for path in directory.iterdir():
        path.chmod(0o644)  # safetensors writes them for the owner alone


def write_paths() -> None:
    """Write the variable paths and shapes of kbert's tiny classifier."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "2"
    import kbert
    from kbert.checkpoints.mapping import weight_variables

    model = kbert.load_classifier(HERE / "bert")
    shapes = {
        path: list(variable.shape)
        for path, variable in weight_variables(model).items()
    }
    path = HERE / "paths" / "bert.json"
    path.parent.mkdir(exist_ok=True)
    lines = [
        f"  {json.dumps(path)}: {json.dumps(shape)}"
        for path, shape in shapes.items()
    ]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def write_bin() -> None:
    """Write every kind of tensor as torch does, and what it holds."""
    grid = torch.arange(24, dtype=torch.float32).reshape(4, 6) / 7
    tensors = {
        "grid": grid,
        "transposed": grid.T,
        "corner": grid[1:3, 2:5],
        "every_second": grid[:, ::2],
        "parameter": torch.nn.Parameter(grid[0] * 2),
        "half": grid.half(),
        "bfloat16": grid.bfloat16(),
        "double": grid.double(),
        "position_ids": torch.arange(5).expand(1, -1),
        "int32": torch.arange(-3, 3, dtype=torch.int32),
        "bytes": torch.tensor([0, 255], dtype=torch.uint8),
        "bool": grid[0] > 0.5,
        "number": torch.tensor(2.5),
        "empty": torch.zeros(0, 4),
    }
    directory = HERE / "torch_bin"
    directory.mkdir(exist_ok=True)
    state = torch.nn.Linear(2, 2).state_dict()  # a dict with `_metadata`
    state.clear()
    state.update(tensors)
    torch.save(state, directory / "pytorch_model.bin")
    safetensors.torch.save_file(
        {name: x.detach().clone().contiguous() for name, x in tensors.items()},
        directory / "model.safetensors",
    )
    (directory / "model.safetensors").chmod(0o644)


def main() -> None:
    """Write what the command line names."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("cases", nargs="*", help=f"of {', '.join(CASES)}")
    parser.add_argument("--paths", action="store_true")
    parser.add_argument("--bin", action="store_true")
    arguments = parser.parse_args()
    if arguments.bin:
        write_bin()
        return
    if arguments.paths:
        write_paths()
        return
    for name in arguments.cases or CASES:
        write_case(name, HERE / name)


if __name__ == "__main__":
    main()
