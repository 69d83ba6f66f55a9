"""The steps in JAX: one compiled function for the whole step, whose buffers are used again."""

import functools
import json
import os
import sys


def limit_threads(count):
    """XLA takes as many threads as there are cores, so it is shown fewer; before the library is loaded."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


with open(sys.argv[2], encoding="utf-8") as description:
    limit_threads(json.load(description)["threads"])

import jax
import jax.numpy as jnp
import numpy

ACTIVATIONS = {"relu": jax.nn.relu, "gelu": functools.partial(jax.nn.gelu, approximate=False)}
NORM_EPSILON = 1e-5
ADAM_EPSILON = 1e-8


def read_weights(case):
    values = numpy.fromfile(case["weights"], dtype=numpy.float32)
    weights, start = {}, 0
    for row in case["parameters"]:
        size = int(numpy.prod(row["shape"]))
        weights[row["name"]] = jnp.array(values[start:start + size].reshape(row["shape"]))
        start += size
    return weights


def loss_function(case):
    heads, activation = case["heads"], ACTIVATIONS[case["activation"]]
    head = "token_embedding" if case["tied_head"] else "head"

    def loss(weights, tokens, targets):
        def linear(x, name):
            y = x @ weights[f"{name}.weight"].T
            return y + weights[f"{name}.bias"] if f"{name}.bias" in weights else y

        def norm(x, name):
            centred = x - x.mean(-1, keepdims=True)
            y = centred * jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + NORM_EPSILON)
            y = y * weights[f"{name}.weight"]
            return y + weights[f"{name}.bias"] if f"{name}.bias" in weights else y

        def split(part):  # [B, T, C] -> [B, T, heads, C / heads]
            return part.reshape(*part.shape[:2], heads, -1)

        x = weights["token_embedding.weight"][tokens] + weights["position_embedding.weight"]
        for index in range(case["layers"]):
            block = f"blocks.{index}"
            qkv = jnp.split(linear(norm(x, f"{block}.norm_1"), f"{block}.attention.qkv"), 3, axis=-1)
            mixed = jax.nn.dot_product_attention(*map(split, qkv), is_causal=True)
            x = x + linear(mixed.reshape(x.shape), f"{block}.attention.projection")
            hidden = activation(linear(norm(x, f"{block}.norm_2"), f"{block}.mlp.expand"))
            x = x + linear(hidden, f"{block}.mlp.contract")
        logits = linear(norm(x, "final_norm"), head)
        chosen = jnp.take_along_axis(logits, targets[..., None], axis=-1).squeeze(-1)
        return (jax.nn.logsumexp(logits, axis=-1) - chosen).mean()

    return loss


def clipped(gradients, limit):
    if limit == 0:
        return gradients
    norm = jnp.sqrt(sum(jnp.vdot(g, g) for g in gradients.values()))
    scale = jnp.minimum(1.0, limit / norm)
    return {name: g * scale for name, g in gradients.items()}


def sgd(case, weights, _, gradients):
    return {name: w - case["lr"] * gradients[name] for name, w in weights.items()}, ()


def adamw(case, weights, state, gradients):
    (beta1, beta2), rate = case["betas"], case["lr"]
    first, second, count = state
    count = count + 1
    first = {name: beta1 * m + (1 - beta1) * gradients[name] for name, m in first.items()}
    second = {name: beta2 * v + (1 - beta2) * gradients[name] ** 2 for name, v in second.items()}

    def moved(name, w):
        decay = case["weight_decay"] if w.ndim >= 2 else 0.0
        root = jnp.sqrt(second[name] / (1 - beta2**count)) + ADAM_EPSILON
        return (1 - rate * decay) * w - rate * (first[name] / (1 - beta1**count)) / root

    return {name: moved(name, w) for name, w in weights.items()}, (first, second, count)


def step_function(case, _):
    batches = numpy.fromfile(case["batches"], dtype=numpy.int32)
    batches = jnp.array(batches.reshape(case["batch_count"], 2, case["batch"], case["block"]))
    gradient_of = jax.value_and_grad(loss_function(case))
    update = {"sgd": sgd, "adamw": adamw}[case["optimizer"]]

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def train(weights, state, number):
        tokens, targets = batches[number]
        loss, gradients = gradient_of(weights, tokens, targets)
        weights, state = update(case, weights, state, clipped(gradients, case["grad_clip"]))
        return weights, state, loss

    weights = read_weights(case)
    zeros = [{name: jnp.zeros_like(w) for name, w in weights.items()} for _ in range(2)]
    state = (*zeros, jnp.zeros(())) if case["optimizer"] == "adamw" else ()

    def step(number):
        nonlocal weights, state
        weights, state, loss = train(weights, state, number)
        jax.block_until_ready((weights, state))
        return float(loss)

    return step
