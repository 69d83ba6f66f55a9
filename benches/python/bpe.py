"""Encodes, decodes or trains with tiktoken or tokenizers, for `cargo xtask bench bpe --python PATH`, which runs

    python bpe.py tiktoken|tokenizers WORK TEXT R50K.tiktoken TOKENIZER.json

The answer is a line of JSON: seconds of the best repetition, the largest resident memory, and a hash of the tokens (of the
bytes when decoding); or the name of a missing module.
"""

import base64
import importlib
import json
import os
import struct
import sys
import time

os.environ["RAYON_NUM_THREADS"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
TIME = 0.4
GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def best(work):
    """Seconds of the fastest repetition, and what the last one made."""
    start, least, repetitions = time.perf_counter(), float("inf"), 0
    while repetitions < 2 or time.perf_counter() - start < TIME:
        begin = time.perf_counter()
        made = work()
        least = min(least, time.perf_counter() - begin)
        repetitions += 1
    return least, made


def hash_of(data):
    """64-bit FNV-1a."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return value


def coders(library, name, files):
    """Functions from text to tokens and from tokens to text."""
    if name == "tiktoken":
        with open(files[0], encoding="ascii") as lines:
            pairs = (line.split() for line in lines)
            ranks = {base64.b64decode(token): int(rank) for token, rank in pairs}
        encoding = library.Encoding("r50k", pat_str=GPT2, mergeable_ranks=ranks, special_tokens={})
        return encoding.encode_ordinary, encoding.decode
    tokenizer = library.Tokenizer.from_file(files[1])
    # Text of special tokens is text.
    tokenizer.encode_special_tokens = True
    return lambda text: tokenizer.encode(text).ids, tokenizer.decode


def train(library, size, path):
    tokenizer = library.Tokenizer(library.models.BPE())
    tokenizer.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = library.trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=library.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    start = time.perf_counter()
    tokenizer.train([path], trainer)
    return time.perf_counter() - start, 0


def measure(library, name, work, path, files):
    if work.startswith("train-"):
        return train(library, int(work.removeprefix("train-")), path)
    encode, decode = coders(library, name, files)
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    if work == "decode":
        tokens = encode(text)
        seconds, text = best(lambda: decode(tokens))
        return seconds, hash_of(text.encode())
    seconds, tokens = best(lambda: encode(text))
    return seconds, hash_of(struct.pack(f"<{len(tokens)}I", *tokens))


def peak_rss_mb():
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            line = next(line for line in status if line.startswith("VmHWM:"))
    except (OSError, StopIteration):
        return None
    return int(line.split()[1]) * 1024 / 1e6


def main(name, work, path, *files):
    try:
        library = importlib.import_module(name)
    except ImportError:
        print(json.dumps({"missing": name}))
        return
    seconds, check = measure(library, name, work, path, files)
    print(json.dumps({"seconds": seconds, "peak_rss_mb": peak_rss_mb(), "check": check}))


main(*sys.argv[1:])
