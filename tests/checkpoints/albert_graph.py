"""ALBERT in TensorFlow 1's graph mode, under google-research/albert's scopes.

The names are those that TensorFlow's own variable scopes make; the numbers do
not pass through kbert. Follows `transformer_model` and `attention_ffn_block`
of https://github.com/google-research/albert/blob/master/modeling.py
"""

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def variable(name, *shape):
    seed = sum(map(ord, v1.get_variable_scope().name + name))
    values = np.random.default_rng(seed).normal(0, 0.4, shape)
    return v1.get_variable(
        name, initializer=values.astype("float32"), use_resource=False
    )


def dense(x, units, scope="dense"):
    with v1.variable_scope(scope):
        kernel = variable("kernel", int(x.shape[-1]), units)
        return tf.linalg.matmul(x, kernel) + variable("bias", units)


def layer_norm(x):
    # tf.contrib's has no scope of its own: the second in one is LayerNorm_1.
    with v1.variable_scope(None, default_name="LayerNorm"):
        mean, variance = tf.nn.moments(x, -1, keepdims=True)
        scale = variable("gamma", int(x.shape[-1]))
        x = (x - mean) / tf.sqrt(variance + 1e-12)
        return x * scale + variable("beta", int(x.shape[-1]))


def gelu(x):
    return 0.5 * x * (1 + tf.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def attention(x, mask, heads):
    length, size = int(x.shape[1]), int(x.shape[2]) // heads

    def split(scope):
        y = tf.reshape(dense(x, heads * size, scope), (-1, length, heads, size))
        return tf.transpose(y, (0, 2, 1, 3))

    query, key, value = split("query"), split("key"), split("value")
    scores = tf.matmul(query, key, transpose_b=True) / np.sqrt(size)
    scores += (1.0 - tf.cast(mask, "float32")[:, None, None, :]) * -10000.0
    y = tf.transpose(tf.matmul(tf.nn.softmax(scores), value), (0, 2, 1, 3))
    return tf.reshape(y, (-1, length, heads * size))


def block(x, mask, config):
    with v1.variable_scope("attention_1"):
        with v1.variable_scope("self"):
            y = attention(x, mask, config["num_attention_heads"])
        with v1.variable_scope("output"):
            y = dense(y, config["hidden_size"])
    x = layer_norm(y + x)
    with v1.variable_scope("ffn_1/intermediate"):
        y = gelu(dense(x, config["intermediate_size"]))
        with v1.variable_scope("output"):
            y = dense(y, config["hidden_size"])
    return layer_norm(y + x)


def encoder(ids, segments, mask, config):
    """The sequence and the pooled output, and the token table."""
    with v1.variable_scope("bert"):
        with v1.variable_scope("embeddings"):
            width = config["embedding_size"]
            table = variable("word_embeddings", config["vocab_size"], width)
            kinds = variable("token_type_embeddings", 2, width)
            rows = config["max_position_embeddings"]
            positions = variable("position_embeddings", rows, width)
            x = tf.gather(table, ids) + tf.gather(kinds, segments)
            x = layer_norm(x + positions[: ids.shape[1]])
        with v1.variable_scope("encoder"):
            if width != config["hidden_size"]:
                scope = "embedding_hidden_mapping_in"
                x = dense(x, config["hidden_size"], scope)
            with v1.variable_scope("transformer", reuse=v1.AUTO_REUSE):
                layers = config["num_hidden_layers"]
                for layer in range(layers):
                    group = layer * config["num_hidden_groups"] // layers
                    for inner in range(config["inner_group_num"]):
                        scope = f"group_{group}/inner_group_{inner}"
                        with v1.variable_scope(scope):
                            x = block(x, mask, config)
        with v1.variable_scope("pooler"):
            pooled = tf.tanh(dense(x[:, 0], config["hidden_size"]))
    return x, pooled, table


def transposed_dense(x, scope, units):
    with v1.variable_scope(scope):
        weights = variable("output_weights", units, int(x.shape[-1]))
        return tf.linalg.matmul(x, weights, transpose_b=True) + variable(
            "output_bias", units
        )


def every_output(config, inputs):
    """The encoder and every head in the graph: name → output."""
    ids, segments, mask = (
        tf.constant(inputs[name])
        for name in ("token_ids", "segment_ids", "padding_mask")
    )
    x, pooled, table = encoder(ids, segments, mask, config)
    with v1.variable_scope("cls/predictions"):
        with v1.variable_scope("transform"):
            y = layer_norm(gelu(dense(x, config["embedding_size"])))
        bias = variable("output_bias", config["vocab_size"])
        mlm = tf.matmul(y, table[None], transpose_b=True) + bias
    spans = transposed_dense(x, "cls/squad", 2)
    return {
        "sequence_output": x,
        "pooled_output": pooled,
        "mlm": mlm,
        "nsp": transposed_dense(pooled, "cls/seq_relationship", 2),
        "start": spans[..., 0],
        "end": spans[..., 1],
        "logits": transposed_dense(pooled, "", 3),
    }


def write(prefix, config, inputs):
    """Write a checkpoint with every head; returns name → output of it."""
    with tf.Graph().as_default(), v1.Session() as session:
        outputs = every_output(config, inputs)
        session.run(v1.global_variables_initializer())
        v1.train.Saver().save(
            session, str(prefix), write_meta_graph=False, write_state=False
        )
        return session.run(outputs)


def read(prefix, config, inputs, keys):
    """Outputs of the graph with a checkpoint's variables, all of them."""
    names = {name for name, _ in tf.train.list_variables(str(prefix))}
    with tf.Graph().as_default(), v1.Session() as session:
        outputs = every_output(config, inputs)
        session.run(v1.global_variables_initializer())
        found = [v for v in v1.global_variables() if v.op.name in names]
        assert {v.op.name for v in found} == names
        v1.train.Saver(found).restore(session, str(prefix))
        return session.run({key: outputs[key] for key in keys})
