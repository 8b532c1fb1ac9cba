"""What an enriched event looks like: chosen fields of the row added, or a user's own idea."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec

from udfs.core.jsontext import (
    BadRecord,
    Fields,
    Members,
    decode_any,
    dig,
    members,
    object_fields,
    with_fields,
    with_members,
)

UserMerge = Callable[[dict[str, object], dict[str, object]], dict[str, object]]


class Merge(Protocol):
    """Makes the enriched value (JSON text) from an event and the row that it met."""

    @property
    def names(self) -> tuple[str, ...]:
        """The fields that it adds, as far as they are known without a row."""
        ...

    def prepare(self, row: bytes) -> Any:
        """What a row adds to any event, made once and kept as long as the row. Raises BadRecord."""
        ...

    def __call__(self, event: bytes, fields: Fields, prepared: Any) -> bytes:
        """``fields`` are the event's top-level fields; ``prepared`` its row's. Raises BadRecord."""
        ...


@dataclass(frozen=True)
class AddFields:
    """Adds fields of the row to the event: pairs of path in the row and name in the enriched event.

    A field that the row lacks is left out, one that is null is added as null.
    """

    pairs: tuple[tuple[tuple[str, ...], str], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the row's fields have in the enriched event."""
        return tuple(name for _, name in self.pairs)

    def prepare(self, row: bytes) -> Members:
        """The row's fields under their names in the event."""
        row_fields = object_fields(row, "table row")
        return members(
            {name: raw for path, name in self.pairs if (raw := dig(row_fields, path)) is not None}
        )

    def __call__(self, event: bytes, fields: Fields, prepared: Members) -> bytes:
        return with_members(event, fields, prepared)

    def carried(self, enriched: bytes, row: bytes) -> bool:
        """Whether the event has all that this row adds, byte by byte. Raises BadRecord."""
        event_fields = object_fields(enriched, "enriched event")
        row_fields = object_fields(row, "table row")
        pairs = ((dig(row_fields, path), event_fields.get(name)) for path, name in self.pairs)
        return all(raw is None or (got is not None and bytes(got) == raw) for raw, got in pairs)


def without_row(
    event: bytes, fields: Fields, names: Sequence[str], told: Mapping[str, str]
) -> bytes:
    """The event with null for each of ``names``, and with the texts ``told`` by name."""
    additions = dict.fromkeys(names, b"null")
    additions |= {name: msgspec.json.encode(text) for name, text in told.items()}
    return with_fields(event, fields, additions)


class CustomMerge:
    """Calls a user's function ``merge(event, row) -> dict`` with plain Python dicts."""

    def __init__(self, import_path: str) -> None:
        self.import_path = import_path
        self._function: UserMerge | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """None: only the user's function knows what it adds."""
        return ()

    @property
    def module(self) -> str:
        """The module that the function is imported from."""
        return self.import_path.partition(":")[0]

    def prepare(self, row: bytes) -> bytes:
        """The row as it is: each call gets a dict of its own, which the function may change."""
        return row

    def __call__(self, event: bytes, fields: Fields, prepared: bytes) -> bytes:
        if self._function is None:
            # Here and not in __init__, which runs on the client: the worker imports its own copy.
            name = self.import_path.partition(":")[2]
            self._function = getattr(importlib.import_module(self.module), name)
        event_dict, row_dict = decode_any(event), decode_any(prepared)
        try:
            enriched = self._function(event_dict, row_dict)  # type: ignore[arg-type]
            text = msgspec.json.encode(enriched)
        except (Exception, SystemExit) as error:
            # Whatever the user's function raises concerns this event alone: it becomes a dead
            # letter with the reason, and the job goes on.
            name = type(error).__name__
            raise BadRecord(f"merge function {self.import_path} failed: {name}: {error}") from error
        if not isinstance(enriched, dict):
            kind = type(enriched).__name__
            raise BadRecord(f"merge function {self.import_path} returned {kind}, expected a dict")
        return text
