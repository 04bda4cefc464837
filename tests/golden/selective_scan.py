#!/usr/bin/env python3
"""Makes selective_scan.json: the selective scan of small cases in float64, by numpy.

Written from algorithm 2 of Gu and Dao, "Mamba: Linear-Time Sequence Modeling with
Selective State Spaces" (2023), and the discretisation around it, without a look at the
Rust code. Inputs are not stored: tensor k of case c holds, at flat index i (row-major,
time before channels), hash(c, k, i) / 128 - 1 with an 8-bit hash, which every element
type holds exactly. Of the outputs, every element of the final state is stored and up to
200 of y, evenly spread.

    python3 tests/golden/selective_scan.py     # writes the file beside this script
"""

import json
import pathlib

import numpy as np


def tensor(case, k, *shape):
    count = int(np.prod(shape))
    i = np.arange(count, dtype=np.uint64)
    h = (i * np.uint64(2654435761) + np.uint64(case * 7919 + k * 104729)) % np.uint64(2**32)
    h ^= h >> np.uint64(15)
    h = (h * np.uint64(2246822519)) % np.uint64(2**32)
    return (h >> np.uint64(24)).astype(np.float64).reshape(shape) / 128.0 - 1.0


def selective_scan(x, delta, A, B, C, D, bias, z, h, softplus):
    """One sequence: x, delta, z [L, D]; A [D, N]; B, C [L, G, N]; h [D, N]."""
    length, channels = x.shape
    group = np.arange(channels) // (channels // B.shape[1])
    if bias is not None:
        delta = delta + bias
    if softplus:
        delta = np.logaddexp(0.0, delta)
    y = np.zeros_like(x)
    for t in range(length):
        decay = np.exp(delta[t][:, None] * A)
        h = decay * h + (delta[t] * x[t])[:, None] * B[t][group]
        y[t] = (C[t][group] * h).sum(axis=1)
        if D is not None:
            y[t] += D * x[t]
    if z is not None:
        y *= z / (1.0 + np.exp(-z))
    return y, h


def cases():
    """The shapes of the reference implementation's own tests, then ragged ones."""
    everything = dict(log=False, softplus=True, skip=True, bias=True, gate=True, initial=True)
    for length in (128, 256, 512, 1024, 2048, 4096):
        for groups in (1, 2):
            yield dict(everything, shape=[2, length, 4, 8], groups=groups) | {"initial": False}
    yield dict(everything, shape=[2, 128, 4, 8], groups=1)
    for option in ("softplus", "skip", "bias", "gate", "initial"):
        yield dict(everything, shape=[2, 128, 4, 8], groups=1) | {option: False}
    for shape, groups in (
        ([1, 1, 1, 1], 1), ([1, 7, 3, 1], 1), ([2, 13, 6, 3], 3), ([3, 61, 5, 17], 1),
        ([1, 130, 2, 64], 2), ([1, 33, 2, 256], 1), ([2, 100, 18, 4], 1),
    ):
        yield dict(everything, shape=shape, groups=groups) | {"log": True}
    packed = [0, 17, 17, 18, 60]
    yield dict(everything, shape=[1, 60, 4, 8], groups=2, packed=packed) | {"log": True}


def run(number, case):
    batch, length, channels, state = case["shape"]
    groups, offsets = case["groups"], case.get("packed")
    rows = batch if offsets is None else len(offsets) - 1
    x = tensor(number, 0, batch, length, channels)
    delta = 2.0 * tensor(number, 1, batch, length, channels)
    A = tensor(number, 2, channels, state)
    A = -np.exp(A) if case["log"] else A - 1.0
    B = tensor(number, 3, batch, length, groups, state)
    C = tensor(number, 4, batch, length, groups, state)
    D = tensor(number, 5, channels) if case["skip"] else None
    bias = tensor(number, 6, channels) if case["bias"] else None
    z = 4.0 * tensor(number, 7, batch, length, channels) if case["gate"] else None
    h0 = tensor(number, 8, rows, channels, state) if case["initial"] else np.zeros((rows, channels, state))
    if not case["softplus"]:
        delta = delta + 2.0
    y, last = np.zeros_like(x), np.zeros_like(h0)
    for row in range(rows):
        b, begin, end = (row, 0, length) if offsets is None else (0, offsets[row], offsets[row + 1])
        part = slice(begin, end)
        y[b, part], last[row] = selective_scan(
            x[b, part], delta[b, part], A, B[b, part], C[b, part], D, bias,
            None if z is None else z[b, part], h0[row], case["softplus"])
    flat = y.reshape(-1)
    every = max(1, len(flat) // 200)
    return dict(case, every=every, y=flat[::every].tolist(), final_state=last.reshape(-1).tolist())


if __name__ == "__main__":
    results = [run(number, case) for number, case in enumerate(cases())]
    text = ",\n".join(json.dumps(result) for result in results)
    pathlib.Path(__file__).with_suffix(".json").write_text("[\n" + text + "\n]\n")
