"""What Flink says of a statement, as somebody is told it."""

from __future__ import annotations

from pathlib import Path

import pytest

from jobs.sql.files import of_text
from jobs.sql.masking import Masks
from jobs.sql.run import explained

_FILE = Path("sql/views/a.sql")
_TEXT = "-- one\n\nSELECT\n  nope\nFROM misses;"


def _told(cause: str, masks: Masks) -> str:
    (statement,) = of_text(_FILE, _TEXT, {})
    trace = f"An error occurred\n: org.apache.flink.table.api.ValidationException: {cause}\n\tat x"
    return str(explained(statement, Exception(trace), masks))


@pytest.mark.parametrize(
    ("cause", "line", "says"),
    [
        (
            "From line 2, column 3 to line 2, column 6: Column 'nope' not found in any table",
            4,
            "Column 'nope' not found in any table",
        ),
        ("At line 3, column 6: Object 'misses' not found", 5, "Object 'misses' not found"),
        (
            'Encountered "=" at line 1, column 1.\nWas expecting',
            3,
            'Encountered "=". Was expecting',
        ),
        ("Not supported.", 3, "Not supported"),
    ],
)
def test_the_line_of_the_file_is_the_only_one(cause: str, line: int, says: str) -> None:
    assert _told(cause, Masks(())) == (
        f"sql/views/a.sql:{line}: Flink refuses this statement: {says}. "
        "Correct it; nothing was submitted."
    )


@pytest.mark.parametrize(
    "secret", ["it's", "it''s", 'a"b', 'a\\"b', "'properties.ssl.key.password' = 'typed'"]
)
def test_a_secret_is_hidden_in_every_form(secret: str) -> None:
    told = _told(f"No such option: {secret}", Masks(["it's", 'a"b']))
    assert secret not in told
    assert "***" in told
