"""Makes the golden values of this folder with PyTorch, the reference our gradients are held against.

    python tests/golden/make.py

needs torch, safetensors and numpy, which safetensors uses. The committed files were made with the versions named in
their metadata. It writes beside itself:

mini.safetensors   a tiny GPT in the style of the preset mini: ReLU, biases except in query, key and value, an untied head
                   with a bias
small.safetensors  in the style of small and base: GELU (erf), no bias anywhere, the head tied to the token embedding
gpt2.safetensors   in the style of GPT-2: GELU (tanh), biases everywhere but in the head, which is tied
ops.safetensors    single ops with their gradients, and traces of optimizers

A model file holds, in f64 unless said otherwise:

parameter.NAME     the weights at the start, far from a usual initialisation: every gain, bias and mask matters
tokens, targets    [B, T] as i64
logits, loss       [B, T, V] and [1], for these weights
gradient.NAME      of the loss
curve.windows      [steps, B, T + 1] as i64: step s reads columns ..T and predicts columns 1..
curve.rates        [steps] learning rate of each step
curve.losses       [steps] loss before each step
curve.norms        [steps] global gradient norm before clipping
curve.losses_f32   [steps] the losses of the same training in f32, to show what f32 costs
final.NAME         the weights after the last step

and in the metadata, under "golden", a JSON object with the versions, the model's and the training's settings. The steps
are torch.optim.AdamW with decay on tensors of rank two and above, after clipping by global norm. Clipping is written out
here, because torch.nn.utils.clip_grad_norm_ divides by norm + 1e-6 where the exact formula divides by the norm.

The GPT is written twice over the same few primitives: once by their formulas, which make the files, and once by PyTorch's
own functions. The script stops if the two disagree in the loss or in any gradient.
"""

import json
import math
from pathlib import Path
from types import SimpleNamespace

import safetensors
import safetensors.torch
import torch
import torch.nn.functional as functional

FOLDER = Path(__file__).parent
EPSILON = 1e-5  # of LayerNorm
SEED = 20240917
STEPS = 100
CORPUS_LENGTH = 400
TRAINING = {
    "max_rate": 1e-2, "min_rate": 1e-3, "warmup": 10, "decay_steps": 80,
    "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8, "weight_decay": 0.1, "clip": 1.0,
}
MODELS = {
    "mini": (3, {
        "vocab_size": 11, "block_size": 6, "layers": 2, "heads": 2, "embed": 8, "dropout": 0.0, "activation": "relu",
        "bias": True, "qkv_bias": False, "tied_head": False, "head_bias": True,
    }),
    "small": (2, {
        "vocab_size": 13, "block_size": 8, "layers": 2, "heads": 4, "embed": 16, "dropout": 0.0, "activation": "gelu",
        "bias": False, "qkv_bias": False, "tied_head": True, "head_bias": False,
    }),
    "gpt2": (2, {
        "vocab_size": 9, "block_size": 5, "layers": 1, "heads": 3, "embed": 12, "dropout": 0.0,
        "activation": "gelu-tanh", "bias": True, "qkv_bias": True, "tied_head": True, "head_bias": False,
    }),
}


# The primitives by their formulas.

def layer_norm(x, gain, bias):
    centred = x - x.mean(-1, keepdim=True)
    normal = centred / torch.sqrt((centred * centred).mean(-1, keepdim=True) + EPSILON)
    return normal * gain if bias is None else normal * gain + bias


def softmax(x):
    exponentials = torch.exp(x - x.amax(-1, keepdim=True))
    return exponentials / exponentials.sum(-1, keepdim=True)


def attention(q, k, v):
    """q, k, v: [B, heads, T, size of a head]."""
    length, size = q.shape[-2:]
    scores = q @ k.transpose(-2, -1) / math.sqrt(size)
    past = torch.tril(torch.ones(length, length, dtype=torch.bool))
    return softmax(scores.masked_fill(~past, -math.inf)) @ v


def cross_entropy(logits, targets):
    chosen = logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return (torch.logsumexp(logits, -1) - chosen).mean()


def gelu_tanh(x):
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


WRITTEN = SimpleNamespace(
    layer_norm=layer_norm, attention=attention, cross_entropy=cross_entropy,
    activations={
        "relu": lambda x: x.clamp(min=0), "gelu-tanh": gelu_tanh,
        "gelu": lambda x: 0.5 * x * (1 + torch.erf(x / math.sqrt(2))),
    },
)
LIBRARY = SimpleNamespace(
    layer_norm=lambda x, gain, bias: functional.layer_norm(x, gain.shape, gain, bias, EPSILON),
    attention=lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, is_causal=True),
    cross_entropy=lambda logits, targets: functional.cross_entropy(logits.flatten(0, -2), targets.flatten()),
    activations={
        "relu": functional.relu, "gelu": functional.gelu,
        "gelu-tanh": lambda x: functional.gelu(x, approximate="tanh"),
    },
)


# The GPT.

def parameter_shapes(config):
    """Name and shape of every parameter, in the order in which they are drawn."""
    wide, vocabulary = config["embed"], config["vocab_size"]
    yield "token_embedding.weight", (vocabulary, wide)
    yield "position_embedding.weight", (config["block_size"], wide)

    def layer(name, shape, bias):
        yield f"{name}.weight", shape
        if bias:
            yield f"{name}.bias", shape[:1]

    for index in range(config["layers"]):
        block = f"blocks.{index}"
        yield from layer(f"{block}.norm_1", (wide,), config["bias"])
        yield from layer(f"{block}.attention.qkv", (3 * wide, wide), config["qkv_bias"])
        yield from layer(f"{block}.attention.projection", (wide, wide), config["bias"])
        yield from layer(f"{block}.norm_2", (wide,), config["bias"])
        yield from layer(f"{block}.mlp.expand", (4 * wide, wide), config["bias"])
        yield from layer(f"{block}.mlp.contract", (wide, 4 * wide), config["bias"])
    yield from layer("final_norm", (wide,), config["bias"])
    if not config["tied_head"]:
        yield "head.weight", (vocabulary, wide)
    if config["head_bias"]:
        yield "head.bias", (vocabulary,)


def draw_parameter(name, shape):
    noise = torch.randn(shape, dtype=torch.float64)
    if "norm" in name and name.endswith("weight"):
        return 1 + 0.3 * noise
    if "embedding" in name:
        return 0.7 * noise
    return 0.3 * noise if len(shape) == 1 else noise / math.sqrt(shape[1])


def logits_of(config, weights, tokens, ops):
    heads, wide = config["heads"], config["embed"]
    batch, length = tokens.shape

    def linear(x, name):
        y = x @ weights[f"{name}.weight"].T
        return y + weights[f"{name}.bias"] if f"{name}.bias" in weights else y

    def norm(x, name):
        return ops.layer_norm(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))

    def split(part):  # [B, T, C] -> [B, heads, T, C / heads]
        return part.reshape(batch, length, heads, wide // heads).transpose(1, 2)

    x = weights["token_embedding.weight"][tokens] + weights["position_embedding.weight"][:length]
    for index in range(config["layers"]):
        block = f"blocks.{index}"
        q, k, v = linear(norm(x, f"{block}.norm_1"), f"{block}.attention.qkv").split(wide, dim=-1)
        mixed = ops.attention(split(q), split(k), split(v)).transpose(1, 2).reshape(batch, length, wide)
        x = x + linear(mixed, f"{block}.attention.projection")
        hidden = ops.activations[config["activation"]](linear(norm(x, f"{block}.norm_2"), f"{block}.mlp.expand"))
        x = x + linear(hidden, f"{block}.mlp.contract")
    x = norm(x, "final_norm")
    if config["tied_head"]:
        return x @ weights["token_embedding.weight"].T
    return linear(x, "head")


def leaves(weights, dtype=torch.float64):
    return {name: value.detach().to(dtype).clone().requires_grad_() for name, value in weights.items()}


def evaluate(config, weights, tokens, targets, ops=WRITTEN):
    """Logits, loss and the gradient of every parameter."""
    weights = leaves(weights)
    logits = logits_of(config, weights, tokens, ops)
    loss = ops.cross_entropy(logits, targets)
    loss.backward()
    return logits.detach(), loss.detach(), {name: weight.grad for name, weight in weights.items()}


def require_close(what, found, expected, relative=1e-11):
    scale = expected.abs().max().item()
    difference = (found - expected).abs().max().item()
    if not difference <= relative * scale:
        raise SystemExit(f"{what}: differs by {difference:e} at a scale of {scale:e}")


def require_agreement(config, weights, tokens, targets):
    _, loss, gradients = evaluate(config, weights, tokens, targets, WRITTEN)
    _, library_loss, library_gradients = evaluate(config, weights, tokens, targets, LIBRARY)
    require_close("loss", loss, library_loss)
    # One scale for all: a bias of the keys cannot change the loss, so its gradient is nothing but rounding.
    together = [torch.cat([g.flatten() for g in grads.values()]) for grads in (gradients, library_gradients)]
    require_close("gradients", *together)


# Training.

def rate_at(step):
    """Linear warm-up, then a cosine down to the smallest rate, which stays."""
    top, low, warmup, end = (TRAINING[key] for key in ("max_rate", "min_rate", "warmup", "decay_steps"))
    if step < warmup:
        return top * (step + 1) / (warmup + 1)
    progress = min(1.0, (step - warmup) / (end - warmup))
    return low + 0.5 * (1 + math.cos(math.pi * progress)) * (top - low)


def clip(weights, limit):
    """Scales all gradients so that their common norm is at most the limit; returns the norm before that."""
    norm = torch.cat([weight.grad.flatten() for weight in weights]).norm()
    if norm > limit:
        for weight in weights:
            weight.grad.mul_(limit / norm)
    return norm.item()


def train(config, start, windows, dtype):
    weights = leaves(start, dtype)
    groups = [
        {"params": [w for w in weights.values() if w.ndim >= 2], "weight_decay": TRAINING["weight_decay"]},
        {"params": [w for w in weights.values() if w.ndim < 2], "weight_decay": 0.0},
    ]
    betas = (TRAINING["beta1"], TRAINING["beta2"])
    optimizer = torch.optim.AdamW(groups, lr=0.0, betas=betas, eps=TRAINING["epsilon"])
    record = {"rates": [], "losses": [], "norms": []}
    for step, window in enumerate(windows):
        for group in optimizer.param_groups:
            group["lr"] = rate_at(step)
        optimizer.zero_grad()
        loss = WRITTEN.cross_entropy(logits_of(config, weights, window[:, :-1], WRITTEN), window[:, 1:])
        loss.backward()
        record["norms"].append(clip(list(weights.values()), TRAINING["clip"]))
        record["rates"].append(rate_at(step))
        record["losses"].append(loss.item())
        optimizer.step()
    return record, {name: weight.detach() for name, weight in weights.items()}


def draw_windows(config, batch):
    """Windows of a text in which each symbol has a few likely followers, so that there is something to learn."""
    followers = torch.randint(config["vocab_size"], (config["vocab_size"], 2))
    text = [0]
    for choice, wild in zip(torch.rand(CORPUS_LENGTH).tolist(), torch.randint(config["vocab_size"], (CORPUS_LENGTH,))):
        text.append(wild.item() if choice < 0.1 else followers[text[-1], int(choice > 0.4)].item())
    starts = torch.randint(CORPUS_LENGTH - config["block_size"], (STEPS, batch))
    return torch.tensor(text)[starts.unsqueeze(-1) + torch.arange(config["block_size"] + 1)]


def make_model(name, batch, config):
    torch.manual_seed(SEED)
    weights = {name: draw_parameter(name, shape) for name, shape in parameter_shapes(config)}
    tokens, targets = torch.randint(config["vocab_size"], (2, batch, config["block_size"]))
    require_agreement(config, weights, tokens, targets)
    logits, loss, gradients = evaluate(config, weights, tokens, targets)
    windows = draw_windows(config, batch)
    record, final = train(config, weights, windows, torch.float64)
    record_f32, _ = train(config, weights, windows, torch.float32)
    clipped = sum(norm > TRAINING["clip"] for norm in record["norms"])
    if not 0 < clipped < STEPS:
        raise SystemExit(f"{name}: {clipped} of {STEPS} steps are clipped, so one of the two cases goes untested")
    double = torch.float64
    curve = {f"curve.{key}": torch.tensor(values, dtype=double) for key, values in record.items()}
    save(name, {"config": config, "training": TRAINING}, {
        "tokens": tokens, "targets": targets, "logits": logits, "loss": loss.reshape(1),
        **{f"parameter.{key}": value for key, value in weights.items()},
        **{f"gradient.{key}": value for key, value in gradients.items()},
        **{f"final.{key}": value for key, value in final.items()},
        "curve.windows": windows, **curve, "curve.losses_f32": torch.tensor(record_f32["losses"], dtype=double),
    })
    print(f"{name}: {sum(w.numel() for w in weights.values())} parameters, loss {loss:.4f}, curve from "
          f"{record['losses'][0]:.4f} to {record['losses'][-1]:.4f}, {clipped} of {STEPS} steps clipped")


# Single ops and optimizers.

def differentiated(name, op, **inputs):
    """The result of an op and the gradients of Σ upstream·result, with a random upstream."""
    inputs = leaves(inputs)
    result = op(*inputs.values())
    upstream = torch.randn(result.shape, dtype=torch.float64)
    result.backward(upstream)
    entries = {f"{name}.{key}": value.detach() for key, value in inputs.items()}
    entries |= {f"{name}.gradient.{key}": value.grad for key, value in inputs.items()}
    return entries | {f"{name}.result": result.detach(), f"{name}.upstream": upstream}


def make_ops():
    def normal(*shape):
        return torch.randn(shape, dtype=torch.float64)

    def self_attention(qkv, heads=2):
        parts = [part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1)]
        return LIBRARY.attention(*parts).transpose(1, 2).flatten(-2)

    edges = torch.tensor([0.0, 1.0, -1.0, 2.0, 3.0, -5.0, 60.0, -60.0, 1e-12, -1e-12, 0.1, -8.0], dtype=torch.float64)
    wide = torch.cat([edges, 3 * normal(36)]).reshape(6, 8)
    entries = {}
    for name in ("relu", "gelu", "gelu-tanh"):
        entries |= differentiated(name, LIBRARY.activations[name], x=wide)
    entries |= differentiated("tanh", torch.tanh, x=wide) | differentiated("sigmoid", torch.sigmoid, x=wide)
    entries |= differentiated("softmax", lambda x: torch.softmax(x, -1), x=wide)
    entries |= differentiated("layer_norm", LIBRARY.layer_norm, x=10 + normal(2, 3, 8), gain=normal(8), bias=normal(8))
    entries |= differentiated("linear", functional.linear, x=normal(2, 3, 5), weight=normal(4, 5), bias=normal(4))
    entries |= differentiated("attention", self_attention, qkv=normal(2, 5, 24))
    entries |= differentiated("matmul", torch.matmul, a=normal(3, 4), b=normal(4, 5))

    ids = torch.tensor([[2, 2, 0], [4, 2, 1]])
    entries |= differentiated("embedding", lambda table: table[ids], table=normal(5, 4)) | {"embedding.ids": ids}
    targets, ignored = torch.tensor([3, 0, 6, 0, 5, 2]), 0
    entries |= {"cross_entropy.targets": targets}
    for name, ignore in (("cross_entropy", -100), ("cross_entropy_ignoring", ignored)):
        loss = lambda x, ignore=ignore: functional.cross_entropy(x, targets, ignore_index=ignore).reshape(1)
        entries |= differentiated(name, loss, logits=4 * normal(6, 7))

    traces, settings = optimizer_traces()
    save("ops", {"ignored": ignored, "optimizers": settings}, entries | traces)
    print(f"ops: {len(entries) + len(traces)} tensors")


def optimizer_traces(steps=12, size=6):
    """Parameters after each of a few steps with given gradients; the last element gets a gradient of zero at first."""
    start = torch.randn(size, dtype=torch.float64)
    gradients = torch.randn(steps, size, dtype=torch.float64)
    gradients[: steps // 2, -1] = 0
    optimizers = {
        "sgd": (torch.optim.SGD, {"lr": 0.1}),
        "momentum": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9}),
        "nesterov": (torch.optim.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}),
        "adam": (torch.optim.Adam, {"lr": 0.05, "betas": (0.9, 0.99), "eps": 1e-8}),
        "adamw": (torch.optim.AdamW, {"lr": 0.05, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.2}),
    }
    entries = {"optimizer.start": start, "optimizer.gradients": gradients}
    for name, (optimizer, settings) in optimizers.items():
        weight = start.clone().requires_grad_()
        stepper, trace = optimizer([weight], **settings), []
        for gradient in gradients:
            weight.grad = gradient.clone()
            stepper.step()
            trace.append(weight.detach().clone())
        entries[f"optimizer.{name}"] = torch.stack(trace)
    return entries, {name: settings for name, (_, settings) in optimizers.items()}


def save(name, description, tensors):
    versions = {"torch": torch.__version__, "safetensors": safetensors.__version__}
    metadata = {"golden": json.dumps({"versions": versions, **description})}
    tensors = {key: value.contiguous() for key, value in tensors.items()}
    safetensors.torch.save_file(tensors, FOLDER / f"{name}.safetensors", metadata)


def main():
    torch.set_num_threads(1)
    for name, (batch, config) in MODELS.items():
        make_model(name, batch, config)
    make_ops()


if __name__ == "__main__":
    main()
