"""Flink's id of an operator, from its uid: MurmurHash3 x64 128 with seed 0.

As in ``StreamGraphHasherV2.generateUserSpecifiedHash`` of Flink 2.3.0. Written out here so that an
id in a stack trace or a savepoint can be given its name without starting a JVM.
"""

from __future__ import annotations

import struct

_MASK = (1 << 64) - 1
_C1, _C2 = 0x87C37B91114253D5, 0x4CF5AD432745937F
_BLOCK = 16
_WORD = 8


def operator_id(uid: str) -> str:
    """The operator id of ``uid``, 32 hexadecimal digits, as savepoints and stack traces have it."""
    data = uid.encode()
    whole = len(data) - len(data) % _BLOCK
    h1 = h2 = 0
    for start in range(0, whole, _BLOCK):
        k1, k2 = struct.unpack_from("<QQ", data, start)
        h1 ^= _mix1(k1)
        h1 = (_rotl(h1, 27) + h2) * 5 + 0x52DCE729 & _MASK
        h2 ^= _mix2(k2)
        h2 = (_rotl(h2, 31) + h1) * 5 + 0x38495AB5 & _MASK
    tail = data[whole:]
    h2 ^= _mix2(int.from_bytes(tail[_WORD:], "little"))
    h1 ^= _mix1(int.from_bytes(tail[:_WORD], "little"))
    h1 ^= len(data)
    h2 ^= len(data)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    h1, h2 = _final(h1), _final(h2)
    h1 = h1 + h2 & _MASK
    h2 = h2 + h1 & _MASK
    return struct.pack("<QQ", h1, h2).hex()


def _rotl(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _MASK


def _mix1(k: int) -> int:
    return _rotl(k * _C1 & _MASK, 31) * _C2 & _MASK


def _mix2(k: int) -> int:
    return _rotl(k * _C2 & _MASK, 33) * _C1 & _MASK


def _final(h: int) -> int:
    h ^= h >> 33
    h = h * 0xFF51AFD7ED558CCD & _MASK
    h ^= h >> 33
    h = h * 0xC4CEB9FE1A85EC53 & _MASK
    return h ^ h >> 33
