"""What `tablegate retry` prints, and how it ends where no broker answers."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from jobs.preflight import admin
from ops.cli import app
from ops.retry import screen, topics
from ops.retry.errors import Exit
from ops.retry.filters import Fate
from ops.retry.letters import Place
from ops.retry.summary import Kind, Tally, newest
from tests.ops.test_deploy_actions import CONFIG
from tests.ops.test_retry_letters import AT, NOW_MS, OURS, letter


def test_a_letter_is_one_line_under_its_heading() -> None:
    head, line = screen.heading("orders.dead"), screen.line(letter(replayed=True))
    for column, text in (
        ("where", "orders.dead[0]@12"),
        ("verdict", "NOT_FOUND"),
        ("first seen", "2023-11-14 22:13:20 UTC"),
        ("attempts", "1"),
        ("source", "orders[2]@7"),
        ("key", "o1"),
        ("error", "(replayed) no row"),
    ):
        assert line[head.index(column) :].startswith(text)


def test_json_is_one_object_although_it_is_written_as_letters_come() -> None:
    for letters in ([], [letter(), letter({})]):
        out, tally = io.StringIO(), Tally()
        for each in letters:
            tally.add(each)
        screen.write_json(out, "orders.dead", iter(letters), tally, ["n"])
        found = json.loads(out.getvalue())
        assert found["found"] == len(letters) == len(found["letters"])
        assert found["notes"] == ["n"]


def test_letters_are_counted_by_verdict_and_source_topic() -> None:
    tally = Tally()
    for each in (letter(), letter(replayed=True), letter({})):
        tally.add(each)
    assert list(tally.rows()) == [(Kind("NOT_FOUND", "orders"), 2, 1), (Kind("?", "?"), 1, 0)]


def test_what_is_skipped_is_named_with_its_remedy() -> None:
    tally = Tally()
    tally.skip(letter({**OURS, "tablegate-source": b"products[0]@3"}), Fate.TABLE_ROW)
    (told,) = screen.skipped(tally)
    assert told == (
        "skipped 1: row of the table, e.g. orders.dead[0]@12 (products[0]@3); no replay can mend "
        "the table: write the row again to its topic."
    )


def test_the_newest_letters_are_those_that_were_seen_last() -> None:
    seen = [{**OURS, "tablegate-first-seen": str(NOW_MS + n).encode()} for n in (3, 1, 2)]
    letters = [letter(headers) for headers in (*seen, {})]
    found = [each.first_seen_ms for each in newest(letters, 2)]
    assert found == [NOW_MS + 2, NOW_MS + 3]


def test_a_place_is_written_as_it_is_read() -> None:
    assert Place.read(str(AT)) == AT
    assert Place.read("orders.dead[0]@-1") is None


@pytest.mark.parametrize("command", [["list"], ["replay", "--yes"], ["replay", "--dry-run"]])
def test_brokers_that_do_not_answer_are_an_error(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (admin, topics):
        monkeypatch.setattr(module, "TIMEOUT_S", 0.05)
    config = tmp_path / "orders.toml"
    config.write_text(CONFIG.replace("localhost:9092", "127.0.0.1:1"))
    done = CliRunner().invoke(app, ["retry", *command, "--config", str(config)])
    assert done.exit_code == Exit.ERROR
    assert "did not answer" in done.stderr


def test_a_config_that_is_wrong_is_a_refusal(tmp_path: Path) -> None:
    missing = ["retry", "list", "--config", str(tmp_path / "none.toml")]
    assert CliRunner().invoke(app, missing).exit_code == Exit.REFUSED
