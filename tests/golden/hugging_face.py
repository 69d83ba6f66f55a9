"""Makes the folder hugging-face with transformers: a random GPT-2 in its own layout, and what it makes of some tokens.

    python tests/golden/hugging_face.py

needs torch, transformers and safetensors. The committed files were made with the versions named in expected.safetensors. It
writes beside itself, in hugging-face:

config.json, model.safetensors   as save_pretrained does
expected.safetensors             what the model makes of two sequences of tokens in f32, stored as f64 unless said otherwise:
    tokens    [B, T + 1] as i64; the inputs are all columns but the last, the targets all but the first
    logits    [B, T, V]
    loss      [1], the mean over all targets, in nats
    greedy    [50] as i64, the most likely tokens behind the first PROMPT tokens of the first sequence, one after the other, each
              from the last T tokens
    NAME      the weights after one step of AdamW on that loss, with decay on tensors of rank two and above
"""

import json
import shutil
from pathlib import Path

import safetensors.torch
import torch
import transformers

FOLDER = Path(__file__).parent / "hugging-face"
PROMPT = 5
TRAINING = {"lr": 1e-3, "betas": (0.9, 0.99), "eps": 1e-8, "weight_decay": 0.1}


def main():
    transformers.logging.set_verbosity_error()
    torch.manual_seed(20240918)
    config = transformers.GPT2Config(
        vocab_size=61, n_positions=16, n_embd=16, n_layer=2, n_head=4, initializer_range=0.3,
        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, bos_token_id=0, eos_token_id=0,
    )
    model = transformers.GPT2LMHeadModel(config)
    with torch.no_grad():  # biases and gains that are not 0 and 1, so that each matters
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.2 * torch.randn_like(parameter))
    shutil.rmtree(FOLDER, ignore_errors=True)
    model.save_pretrained(FOLDER)
    (FOLDER / "generation_config.json").unlink(missing_ok=True)

    length = config.n_positions
    tokens = torch.randint(config.vocab_size, (2, length + 1))
    inputs, targets = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    logits = model(inputs).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    expected = {"tokens": tokens, "logits": logits.detach(), "loss": loss.detach().reshape(1)}

    context = inputs[0, :PROMPT].tolist()
    with torch.no_grad():
        for _ in range(50):
            seen = torch.tensor([context[-length:]])
            context.append(int(model(seen).logits[0, -1].argmax()))
    expected["greedy"] = torch.tensor(context[PROMPT:])

    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2]},
        {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0},
    ]
    loss.backward()
    torch.optim.AdamW(groups, **TRAINING).step()
    expected |= {name: p.detach().clone() for name, p in model.named_parameters()}
    versions = {"torch": torch.__version__, "transformers": transformers.__version__}
    metadata = {"golden": json.dumps({"prompt": PROMPT, "training": TRAINING, "versions": versions})}
    expected = {name: x.double() if x.is_floating_point() else x for name, x in expected.items()}
    safetensors.torch.save_file(expected, FOLDER / "expected.safetensors", metadata)


if __name__ == "__main__":
    main()
