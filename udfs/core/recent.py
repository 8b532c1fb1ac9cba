"""What was used lately, in bounded memory."""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """A dict that forgets what was not asked for lately.

    Two generations: what is used moves to the young one; when that is full, it becomes the old one
    and the old one is dropped. So at most ``size`` entries are kept, and at least the ``size`` / 2
    used last; and an entry that is used costs one look-up, where an exact order would cost a move.

    Args:
        size: entries; below 2: nothing is kept.
    """

    def __init__(self, size: int) -> None:
        self._half = size // 2
        self._young: dict[object, T] = {}
        self._old: dict[object, T] = {}

    def __len__(self) -> int:
        return len(self._young.keys() | self._old.keys())

    def get(self, key: object) -> T | None:
        """What is kept under the key; None: nothing."""
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: object, value: T) -> None:
        """Keep a value, in place of what was kept under the key."""
        if not self._half:
            return
        if len(self._young) >= self._half and key not in self._young:
            self._old, self._young = self._young, {}
        self._young[key] = value

    def drop(self, key: object) -> None:
        """Keep nothing under the key."""
        self._young.pop(key, None)
        self._old.pop(key, None)
