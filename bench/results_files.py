"""Where a bench's results go: what was found as JSON, and the page and picture made of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

Told = Mapping[str, Any]


def write(
    place: Path,
    told: Told,
    markdown: Callable[[Told], str],
    png: Callable[[Told, Path], None] | None = None,
) -> None:
    """Write ``place`` with the suffixes .json, .md and, where there is a picture, .png.

    Prints the page.
    """
    place.parent.mkdir(parents=True, exist_ok=True)
    place.with_suffix(".json").write_text(json.dumps(told, indent=2) + "\n")
    page = markdown(told)
    place.with_suffix(".md").write_text(page)
    if png is not None:
        png(told, place.with_suffix(".png"))
    print(page)
