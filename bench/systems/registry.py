"""All systems, by name, in the order in which tables show them."""

from __future__ import annotations

from bench.systems.contract import System

_ALL: list[System] = []

SYSTEMS = {system.name: system for system in _ALL}

QUICK = tuple(SYSTEMS)
"""Those of ``make bench-quick``."""
