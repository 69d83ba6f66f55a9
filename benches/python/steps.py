"""Makes training steps of a GPT in PyTorch or JAX, for `cargo xtask bench step --python PATH`, which runs

    python steps.py torch-eager|torch-compile|jax CASE.json

and writes requests to its standard input: lines with a number of steps. The answer to each is a line of JSON with the seconds
and the loss of every step, or with the name of a missing module. The case names the sizes, the optimizer's settings, and files
with weights and batches.
"""

import importlib
import json
import sys
import time

MODULES = {"torch-eager": "torch", "torch-compile": "torch", "jax": "jax"}


def answer(**fields):
    print(json.dumps(fields), flush=True)


def serve(step, batch_count):
    """`step` takes the number of a batch and returns the loss as a float, so that nothing is left to do behind it."""
    made = 0
    for line in sys.stdin:
        seconds, losses = [], []
        for _ in range(int(line)):
            start = time.perf_counter()
            losses.append(step(made % batch_count))
            seconds.append(time.perf_counter() - start)
            made += 1
        answer(seconds=seconds, losses=losses)


def main():
    who, path = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        case = json.load(file)
    try:
        script = importlib.import_module(f"{MODULES[who]}_steps")
    except ModuleNotFoundError as error:
        answer(missing=error.name)
        return
    serve(script.step_function(case, who), case["batch_count"])


if __name__ == "__main__":
    main()
