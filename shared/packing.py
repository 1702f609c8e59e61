"""Packed arrays: token ids as little-endian uint32, masks as uint8, log-probabilities as float32.

100,000 ids are 626 kB of JSON numbers and 11 ms to parse; packed they are 400 kB and 0.02 ms.
"""

from __future__ import annotations

import hashlib
import struct
import sys
from array import array
from collections.abc import Iterable, Sequence


def _little(a: array[int] | array[float]) -> bytes:
    if sys.byteorder == "big":
        a.byteswap()
    return a.tobytes()


def pack_ids(ids: Iterable[int]) -> bytes:
    """Token ids as packed uint32.

    Raises:
        OverflowError: an id is negative or does not fit in 32 bits.
    """
    return _little(array("I", ids))


def unpack_ids(data: bytes) -> list[int]:
    """Token ids of a packed uint32 array.

    Raises:
        ValueError: the length is not a multiple of 4.
    """
    a = array("I")
    a.frombytes(data)
    if sys.byteorder == "big":
        a.byteswap()
    return a.tolist()


def pack_floats(values: Iterable[float]) -> bytes:
    """Floats as packed float32.

    Raises:
        OverflowError: one is finite, and too large for that.
    """
    numbers = tuple(values)
    return struct.pack(f"<{len(numbers)}f", *numbers)  # half the time that an array takes


def unpack_floats(data: bytes) -> list[float]:
    """Floats of a packed float32 array."""
    a = array("f")
    a.frombytes(data)
    if sys.byteorder == "big":
        a.byteswap()
    return a.tolist()


def pack_mask(values: Iterable[int]) -> bytes:
    """A 0/1 mask as packed uint8."""
    return bytes(values)


def unpack_mask(data: bytes) -> list[int]:
    """A 0/1 mask of a packed uint8 array."""
    return list(data)


def digest(ids: Sequence[int]) -> str:
    """blake2b-128 hex of ids as packed uint32: equal digests mean equal ids."""
    return digest_packed(pack_ids(ids))


def digest_packed(data: bytes) -> str:
    """blake2b-128 hex of an array that is already packed."""
    return digester(data).hexdigest()


def digester(data: bytes = b"") -> hashlib.blake2b:
    """The running hash behind all digests here; a copy of it goes on from where it was taken."""
    return hashlib.blake2b(data, digest_size=16)
