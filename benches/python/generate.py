"""Writes text with a GPT-2 in transformers, for `cargo xtask bench generate --python PATH`, which runs

    python generate.py FOLDER

and writes requests to its standard input, lines of a work and a number of tokens:

    greedy      the likeliest tokens behind token 1
    block       tokens drawn behind token 1, with kept keys and values, as `generate` of transformers does
    recomputed  the same, each token by a pass over all before it, as nanoGPT does
    beyond      tokens drawn behind a full block, each by a pass over the last block

The answer to each is a line of JSON with the tokens, or with the name of a missing module.
"""

import json
import sys

TEMPERATURE = 0.8
START = 1


def answer(**fields):
    print(json.dumps(fields), flush=True)


def main(folder):
    try:
        import torch
        import transformers
    except ModuleNotFoundError as error:
        answer(missing=error.name)
        return
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    model = transformers.GPT2LMHeadModel.from_pretrained(folder).eval()
    block = model.config.n_positions

    def kept(count, **drawing):
        start = torch.tensor([[START]])
        return model.generate(start, attention_mask=torch.ones_like(start), pad_token_id=0, max_new_tokens=count, **drawing)

    def recomputed(tokens, count):
        for _ in range(count):
            logits = model(tokens[:, -block:], use_cache=False, logits_to_keep=1).logits[:, -1]
            drawn = torch.multinomial(torch.softmax(logits / TEMPERATURE, -1), 1)
            tokens = torch.cat([tokens, drawn], 1)
        return tokens

    works = {
        "greedy": lambda count: kept(count, do_sample=False),
        "block": lambda count: kept(count, do_sample=True, temperature=TEMPERATURE, top_k=0, top_p=1.0),
        "recomputed": lambda count: recomputed(torch.tensor([[START]]), count),
        "beyond": lambda count: recomputed(torch.full((1, block), START), count),
    }
    with torch.inference_mode():
        for line in sys.stdin:
            work, count = line.split()
            tokens = works[work](int(count))[0].tolist()
            answer(tokens=tokens[len(tokens) - int(count):])


if __name__ == "__main__":
    main(sys.argv[1])
