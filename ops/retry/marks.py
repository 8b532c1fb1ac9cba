"""Which dead letters have been replayed, as bits: exact with any filter, and small.

Replays send what a filter means, so that what has been sent is no prefix of a partition, and no
offset can tell it. It is kept in blocks of `BLOCK` offsets; the ledger (`ops.retry.ledger`) has one
record for each block, as text that people can read: ``4096-4099,4102``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

BLOCK = 4_096
"""Offsets in a block. Half as many single ones, the worst case, are 20 KB of text."""

_RANGE = re.compile(r"(\d{1,19})(?:-(\d{1,19}))?")


class Marks:
    """The replayed offsets of one topic. Half a kilobyte for each block that has any."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[int, int], bytearray] = {}
        self._changed: set[tuple[int, int]] = set()

    def __contains__(self, at: tuple[int, int]) -> bool:
        partition, offset = at
        bits = self._blocks.get((partition, offset // BLOCK))
        place = offset % BLOCK
        return bits is not None and bool(bits[place >> 3] & (1 << (place & 7)))

    def add(self, partition: int, offset: int) -> None:
        """Mark one offset."""
        block = (partition, offset // BLOCK)
        bits = self._blocks.get(block)
        if bits is None:
            bits = self._blocks[block] = bytearray(BLOCK // 8)
        place = offset % BLOCK
        bits[place >> 3] |= 1 << (place & 7)
        self._changed.add(block)

    def set_block(self, partition: int, block: int, text: str) -> None:
        """What the ledger says of one block; it is the whole of it.

        Raises:
            ValueError: it is nothing that `changes` wrote.
        """
        bits = bytearray(BLOCK // 8)
        for part in text.split(","):
            match = _RANGE.fullmatch(part)
            if match is None:
                raise ValueError(f"{part!r} is no range of offsets")
            first, last = int(match[1]), int(match[2] or match[1])
            if not block * BLOCK <= first <= last < (block + 1) * BLOCK:
                raise ValueError(f"{part!r} is not in block {block}")
            for place in range(first % BLOCK, last % BLOCK + 1):
                bits[place >> 3] |= 1 << (place & 7)
        self._blocks[partition, block] = bits

    def changes(self) -> Iterator[tuple[int, int, str]]:
        """Partition, block and text of the blocks that changed since the last time; then none."""
        for partition, block in sorted(self._changed):
            yield partition, block, self._ranges(partition, block)
        self._changed.clear()

    def _ranges(self, partition: int, block: int) -> str:
        bits = self._blocks[partition, block]
        parts: list[str] = []
        first: int | None = None
        for place in range(BLOCK + 1):
            if place < BLOCK and bits[place >> 3] & (1 << (place & 7)):
                first = place if first is None else first
            elif first is not None:
                last = block * BLOCK + place - 1
                begin = block * BLOCK + first
                parts.append(str(begin) if begin == last else f"{begin}-{last}")
                first = None
        return ",".join(parts)
