"""The numbers behind the vectorised functions of src/lanes/functions. Needs mpmath.

    python lanes.py fit      prints the coefficients in src/lanes/functions/constants.rs, with the largest error of each fit
    python lanes.py table    writes tests/data/lanes_f64.txt, the values that the f64 functions are tested against

A fit is the polynomial with the least largest weighted error (Remez 1934). A line of the table holds a function's name, the
argument's and the nearest double's bits, and what is missing from that double to the exact value, in units of its last
place.
"""

import pathlib
import random
import struct
import sys

import mpmath
from mpmath import mp, mpf

mp.dps = 60
TABLE = pathlib.Path(__file__).parent.parent / "tests" / "data" / "lanes_f64.txt"


def remez(f, weight, low, high, terms, rounds=12):
    """Coefficients of the best polynomial and its largest weighted error."""
    extrema = terms + 1
    points = [(low + high) / 2 - (high - low) / 2 * mpmath.cos(mp.pi * (2 * i + 1) / (2 * extrema)) for i in range(extrema)]
    grid = [low + (high - low) * (1 - mpmath.cos(mp.pi * i / 2000)) / 2 for i in range(2001)]
    for _ in range(rounds):
        system = mpmath.matrix(extrema, extrema)
        for i, x in enumerate(points):
            for j in range(terms):
                system[i, j] = x**j
            system[i, terms] = (-1) ** i / weight(x)
        solution = mpmath.lu_solve(system, mpmath.matrix([f(x) for x in points]))
        c = [solution[j] for j in range(terms)]
        errors = [weight(x) * (f(x) - mpmath.polyval(c[::-1], x)) for x in grid]
        points = alternating(grid, errors, extrema)
    return c, max(abs(e) for e in errors)


def alternating(grid, errors, count):
    """The points of largest error, one of each run of errors of equal sign."""
    runs = []
    for x, e in zip(grid, errors):
        if runs and (runs[-1][1] > 0) == (e > 0):
            runs[-1] = max(runs[-1], (x, e), key=lambda point: abs(point[1]))
        else:
            runs.append((x, e))
    while len(runs) > count:
        runs.pop(0 if abs(runs[0][1]) < abs(runs[-1][1]) else -1)
    return [x for x, _ in runs]


def exp_remainder(r):
    return mpf(1) / 2 + r / 6 if abs(r) < mpf("1e-12") else (mpmath.exp(r) - 1 - r) / r**2


def artanh_remainder(z):
    if z < mpf("1e-20"):
        return mpf(2) / 3
    s = mpmath.sqrt(z)
    return (2 * mpmath.atanh(s) - 2 * s) / (s * z)


def fit():
    """Weights make the error even in units of the whole function's result; they stay above zero, or the system is singular."""
    slack = 1 + mpf(2) ** -20
    half_ln_2 = mpmath.log(2) / 2 * slack
    farthest = ((mpmath.sqrt(2) - 1) / (mpmath.sqrt(2) + 1)) ** 2 * slack
    for name, f, weight, low, high, terms in [
        ("exp_remainder f32", exp_remainder, lambda r: max(abs(r), mpf("1e-3")), -half_ln_2, half_ln_2, 6),
        ("exp_remainder f64", exp_remainder, lambda r: max(abs(r), mpf("1e-3")), -half_ln_2, half_ln_2, 11),
        ("artanh_remainder f32", artanh_remainder, lambda z: z + mpf("1e-6"), mpf(0), farthest, 4),
        ("artanh_remainder f64", artanh_remainder, lambda z: z + mpf("1e-6"), mpf(0), farthest, 7),
    ]:
        c, error = remez(f, weight, low, high, terms)
        print(f"{name}: largest error 2^{mpmath.nstr(mpmath.log(error, 2), 4)}")
        print("   ", ", ".join(repr(float(x)) for x in c))


def softplus(x):
    return mpmath.log1p(mpmath.exp(x))


FUNCTIONS = {
    "exp": mpmath.exp,
    "exp_m1": mpmath.expm1,
    "ln": mpmath.log,
    "ln_1p": mpmath.log1p,
    "tanh": mpmath.tanh,
    "sigmoid": lambda x: 1 / (1 + mpmath.exp(-x)),
    "softplus": softplus,
    "log_sigmoid": lambda x: -softplus(-x),
}


def bits(x):
    return struct.unpack("<Q", struct.pack("<d", x))[0]


def unit_in_the_last_place(x):
    """Distance of the doubles around x."""
    _, exponent = mpmath.frexp(x)
    return mpf(2) ** max(int(exponent) - 53, -1074)


def arguments(name):
    """Random points of all sizes, more of them where the function bends."""
    source = random.Random(name)
    sizes = [2.0 ** source.uniform(-1074, 1024) for _ in range(60)]
    middle = [2.0 ** source.uniform(-60, 10) for _ in range(120)]
    if name == "ln":
        return sizes + middle + [source.uniform(0.5, 2.0) for _ in range(100)]
    if name == "ln_1p":
        return sizes + middle + [-source.random() for _ in range(60)] + [source.uniform(-0.5, 2.0) for _ in range(60)]
    signed = [x * source.choice([-1, 1]) for x in sizes + middle]
    return signed + [source.uniform(-750, 712) for _ in range(80)] + [source.uniform(-4, 4) for _ in range(80)]


def table():
    lines = []
    for name, f in FUNCTIONS.items():
        for x in sorted(arguments(name)):
            exact = f(mpf(x))
            nearest = float(exact)
            if nearest in (float("inf"), float("-inf")):
                missing = mpf(0)
            else:
                missing = (exact - mpf(nearest)) / unit_in_the_last_place(exact) if exact else mpf(0)
            lines.append(f"{name} {bits(x):016x} {bits(nearest):016x} {mpmath.nstr(missing, 4)}")
    TABLE.parent.mkdir(exist_ok=True)
    TABLE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    commands = {"fit": fit, "table": table}
    if len(sys.argv) != 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]]()
