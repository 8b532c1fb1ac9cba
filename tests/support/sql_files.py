"""Folders of SQL files: the project's own, and what a test adds to them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from ops.paths import SQL


def sql_folder(place: Path, files: Mapping[str, str] | None = None) -> Path:
    """A copy of ``sql/`` at ``place``, with these files (path below it to text) written over it."""
    shutil.copytree(SQL, place)
    for name, text in (files or {}).items():
        (place / name).write_text(text)
    return place


def json_topic(table: str, columns: str, topic: str, *, key: str = "") -> str:
    """CREATE TABLE for a topic of JSON; with ``key``, one that keeps the newest row of each key."""
    if key:
        primary = f", PRIMARY KEY ({key}) NOT ENFORCED"
        options = "'connector' = 'upsert-kafka', 'key.format' = 'json', 'value.format' = 'json'"
    else:
        primary, options = "", "'connector' = 'kafka', 'format' = 'json'"
    return (
        f"CREATE TEMPORARY TABLE {table} ({columns}{primary})\n"
        f"WITH ({options}, 'topic' = '{topic}', ${{CLIENT_OPTIONS}});\n"
    )
