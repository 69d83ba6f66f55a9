"""The steps in PyTorch, written with its own fused functions and its fused optimizers."""

import torch
import torch.nn.functional as functional

ACTIVATIONS = {"relu": functional.relu, "gelu": functional.gelu}


def read(path, dtype):
    with open(path, "rb") as file:
        return torch.frombuffer(bytearray(file.read()), dtype=dtype)


def read_weights(case):
    rows = case["parameters"]
    sizes = [torch.Size(row["shape"]).numel() for row in rows]
    parts = read(case["weights"], torch.float32).split(sizes)
    return {row["name"]: part.reshape(row["shape"]).clone().requires_grad_() for row, part in zip(rows, parts)}


def loss_function(case):
    heads, activation = case["heads"], ACTIVATIONS[case["activation"]]
    head = "token_embedding" if case["tied_head"] else "head"

    def loss(weights, tokens, targets):
        def linear(x, name):
            return functional.linear(x, weights[f"{name}.weight"], weights.get(f"{name}.bias"))

        def norm(x, name):
            gain = weights[f"{name}.weight"]
            return functional.layer_norm(x, gain.shape, gain, weights.get(f"{name}.bias"))

        def split(part):  # [B, T, C] -> [B, heads, T, C / heads]
            return part.unflatten(-1, (heads, -1)).transpose(1, 2)

        x = functional.embedding(tokens, weights["token_embedding.weight"]) + weights["position_embedding.weight"]
        for index in range(case["layers"]):
            block = f"blocks.{index}"
            qkv = linear(norm(x, f"{block}.norm_1"), f"{block}.attention.qkv").chunk(3, dim=-1)
            mixed = functional.scaled_dot_product_attention(*map(split, qkv), is_causal=True)
            x = x + linear(mixed.transpose(1, 2).flatten(2), f"{block}.attention.projection")
            hidden = activation(linear(norm(x, f"{block}.norm_2"), f"{block}.mlp.expand"))
            x = x + linear(hidden, f"{block}.mlp.contract")
        logits = linear(norm(x, "final_norm"), head)
        return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    return loss


def optimizer(case, weights):
    if case["optimizer"] == "sgd":
        return torch.optim.SGD(weights, lr=case["lr"], fused=True)
    groups = [
        {"params": [w for w in weights if w.dim() >= 2], "weight_decay": case["weight_decay"]},
        {"params": [w for w in weights if w.dim() < 2], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=case["lr"], betas=case["betas"], fused=True)


def step_function(case, who):
    torch.set_num_threads(case["threads"])
    weights = read_weights(case)
    batches = read(case["batches"], torch.int32).long()
    batches = batches.reshape(case["batch_count"], 2, case["batch"], case["block"])
    loss_of = loss_function(case)
    if who == "torch-compile":
        loss_of = torch.compile(loss_of)
    update = optimizer(case, list(weights.values()))

    def step(number):
        update.zero_grad(set_to_none=True)
        loss = loss_of(weights, batches[number, 0], batches[number, 1])
        loss.backward()
        if case["grad_clip"] > 0:
            torch.nn.utils.clip_grad_norm_(weights.values(), case["grad_clip"])
        update.step()
        return loss.item()

    return step
