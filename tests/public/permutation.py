"""The order of an epoch, written a second time from its definition in plain Python.

Generalised Feistel network on Z_a x Z_b with cycle walking: Black and Rogaway, "Ciphers with
Arbitrary Finite Domains" (2002). `mix` is the finaliser of splitmix64.
"""

from functools import cache
from hashlib import blake2b
from math import isqrt

WORD = 2**64 - 1


def mix(z):
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & WORD
    z = (z ^ z >> 27) * 0x94D049BB133111EB & WORD
    return z ^ z >> 31


def keys(tag, seed, epoch):
    words = []
    for j in range(2):
        digest = blake2b(f"dfgen/perm/1|{tag}|{seed}|{epoch}|{j}".encode()).digest()
        words += [int.from_bytes(digest[i : i + 8], "little") for i in range(0, 64, 8)]
    return words


def permutation(rows, *, seed=0, epoch=0, tag="rows"):
    """Return the row at each position of an epoch."""
    if rows <= 1:
        return list(range(rows))
    a = isqrt(rows - 1) + 1
    b = -(-rows // a)
    key = keys(tag, seed, epoch)

    def step(x):
        left, right = divmod(x, b)
        for r in range(0, 16, 2):
            left = (left + ((mix(right + key[r] & WORD) >> 32) * a >> 32)) % a
            right = (right + ((mix(left + key[r + 1] & WORD) >> 32) * b >> 32)) % b
        return left * b + right

    def walk(x):
        x = step(x)
        while x >= rows:
            x = step(x)
        return x

    return [walk(x) for x in range(rows)]


@cache
def _epoch(rows, epoch, seed):
    return tuple(permutation(rows, seed=seed, epoch=epoch))


def epoch_rows(rows, epoch, *, seed=0):
    """Return the rows of one epoch of a shuffled Sequence, in order."""
    return list(_epoch(rows, epoch, seed))


def epochs_rows(rows, epochs, *, seed=0):
    """Return the rows of several epochs, one after another."""
    return [row for epoch in epochs for row in epoch_rows(rows, epoch, seed=seed)]
