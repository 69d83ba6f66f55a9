"""Prints the coefficients of the polynomials in src/kernels/math.rs, with their largest relative error.

    python fit_polynomials.py      (needs numpy and mpmath)

exp: on |r| <= ln(2)/2, exp(r) = 1 + r + r^2 * P(r).
erfc: on 0 <= z <= 10 with t = 1 / (1 + z/2), exp(z^2) erfc(z) = t * P(t).
Both are least-squares fits whose weights are raised where the error is largest until it is level (Lawson 1961).
"""

import mpmath
import numpy

mpmath.mp.dps = 40


def level_fit(basis, target, weights, rounds=60):
    """Coefficients c that make the weighted error of basis @ c nearly level, and the largest weighted error."""
    lawson = numpy.ones(len(target))
    for _ in range(rounds):
        scale = weights * lawson
        c, *_ = numpy.linalg.lstsq(basis * scale[:, None], target * scale, rcond=None)
        error = numpy.abs(basis @ c - target) * weights
        lawson *= numpy.sqrt(0.5 + 0.5 * error / error.mean())
    return c, error.max()


def chebyshev_points(low, high, count=400):
    angles = (numpy.arange(count) + 0.5) * numpy.pi / count
    return (low + high) / 2 + (high - low) / 2 * numpy.cos(angles)


def report(name, c, error):
    print(f"{name}: largest error {error:.2e}")
    print("   ", ", ".join(f"{x:.9e}" for x in c))


r = chebyshev_points(-numpy.log(2) / 2, numpy.log(2) / 2)
rest = numpy.array([float((mpmath.exp(x) - 1 - x) / x**2) for x in map(mpmath.mpf, r)])
report("exp", *level_fit(numpy.vander(r, 5, increasing=True), rest, r**2 / numpy.exp(r)))

t = chebyshev_points(1 / 6, 1)
z = [(1 / x - 1) * 2 for x in map(mpmath.mpf, t)]
scaled = numpy.array([float(mpmath.exp(x * x) * mpmath.erfc(x) / y) for x, y in zip(z, t)])
report("erfc", *level_fit(numpy.vander(t, 9, increasing=True), scaled, 1 / scaled))
