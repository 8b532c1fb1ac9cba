"""Merge functions as a user would write them, good and bad."""

from typing import Any


def add_tier_in_capitals(event: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    return event | {"tier": row["tier"].upper()}


def raises(event: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    return {"ratio": 1 / 0}


def returns_none(event: dict[str, Any], row: dict[str, Any]) -> None:
    return None


def name_and_ids(event: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    return event | {"id": row["id"], "name": row["name"]}


def exits(event: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    raise SystemExit(3)


def name_under_another_field(event: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    return event | {"merged_name": row["name"]}
