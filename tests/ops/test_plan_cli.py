"""`tablegate plan` with given numbers: where each number is from, and what cannot be."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ops.cli import app
from ops.paths import ROOT
from ops.plan import rates, screen
from ops.plan.figures import Figure, Origin
from ops.plan.topics import Since, rate
from udfs.core.errors import ConfigError

GIVEN = ("--rows", "2e6", "--events-per-second", "5000")


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["plan", *arguments])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.stdout


def told(*arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(run("--json", *arguments))
    return found


def refused(*arguments: str) -> str:
    with pytest.raises(ConfigError) as caught:
        run(*arguments)
    return str(caught.value)


def test_every_number_says_where_it_is_from() -> None:
    found = told(*GIVEN, "--join-rate", "12000")
    assert found["inputs"]["rows"]["source"] == "--rows"
    assert found["inputs"]["join_rate"] == {
        "value": 12_000,
        "unit": "events/s",
        "origin": "given",
        "source": "--join-rate",
    }
    assert found["inputs"]["load_rate"]["origin"] == "assumed"
    for figure in (*found["inputs"].values(), *found["figures"].values()):
        assert figure["origin"] in set(Origin)
        assert figure["source"]
    assert found["figures"]["load"]["assumes"] == ["load_rate"]
    assert found["figures"]["capacity"]["assumes"] == ["parallelism"]


def test_a_default_stands_in_the_document_that_it_names() -> None:
    shown = {name: f"{value:,.0f}" for name, (value, _) in rates.DEFAULTS.items()}
    shown[rates.ROW_BYTES] = ""
    named = [(shown[name], where) for name, (_, where) in rates.DEFAULTS.items()]
    named += [("9.1 s", rates.START_S[1]), ("33,568", rates.SLACK_EVENTS[1])]
    for text, where in named:
        assert text in (ROOT / where.partition(",")[0]).read_text()


def test_the_page_names_what_each_answer_assumes() -> None:
    lines = run(*GIVEN, "--row-bytes", "200", "--event-bytes", "190").splitlines()
    (load_rate,) = [line for line in lines if line.startswith("  load rate ")]
    assert "29,200 rows/s  assumed a  docs/decisions/0015" in load_rate
    (load,) = [line for line in lines if line.startswith("  load time ")]
    assert load.split("  ")[-1] == "computed, assumes a"
    assert "68 s, 400 MB" in load


def test_the_example_in_the_documents_is_what_the_command_prints() -> None:
    text = (ROOT / "docs" / "when-to-gate.md").read_text()
    (block,) = re.findall(
        r"^```text\n\$ tablegate plan ([^\n]*)\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL
    )
    arguments, printed = block
    assert run(*arguments.split()).strip() == printed
    # What the text says of the restart.
    restart = run("--delta-rows", "50000", *arguments.split()[2:])
    for told in ("hold of 11 s", "1.7 s are the table", "9.5 s of catch-up", "387,966 events"):
        assert told in text
        assert told.partition(" s")[0].split()[-1] in restart + printed


def test_a_restart_reads_what_was_written_meanwhile() -> None:
    found = told("--delta-rows", "29200", "--events-per-second", "5000")
    assert found["restart"]
    assert found["figures"]["load"]["value"] == pytest.approx(1)
    assert run("--delta-rows", "0", "--events-per-second", "0").startswith("A restart: 0 rows")


def test_never_is_null_and_a_word() -> None:
    found = told("--rows", "1", "--events-per-second", "20000", "--join-rate", "10000")
    assert found["never"]
    assert found["figures"]["catch_up"]["value"] is None
    assert "Parallelism 3 is the least" in found["warnings"][0]
    page = run("--rows", "1", "--events-per-second", "20000")
    assert any(line.split()[:2] == ["catch-up", "never"] for line in page.splitlines()), page


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((*GIVEN, "--load-rate", "0"), "--load-rate = 0.0: give a number above 0, in rows/s"),
        ((*GIVEN, "--join-rate", "-1"), "--join-rate = -1.0: give a number above 0, in events/s"),
        ((*GIVEN, "--join-rate", "1e-308"), "--join-rate = 1e-308: give 1e-06 to 1e+15"),
        ((*GIVEN, "--event-bytes", "1e300"), "--event-bytes = 1e+300: give 1e-06 to 1e+15"),
        ((*GIVEN, "--release-rate", "nan"), "--release-rate = nan: give a number above 0"),
        ((*GIVEN, "--parallelism", "1.5"), "--parallelism = 1.5: give a whole number"),
        ((*GIVEN, "--parallelism", "0"), "--parallelism = 0.0: give a number above 0"),
        ((*GIVEN, "--event-bytes", "0"), "--event-bytes = 0.0: give a number above 0, in bytes"),
        ((*GIVEN, "--catch-up-within", "0"), "--catch-up-within = 0.0: give a number above 0"),
        ((*GIVEN, "--window", "0"), "--window = 0.0: give a number above 0, in minutes"),
        ((*GIVEN, "--start-seconds", "-1"), "--start-seconds = -1.0: give 0 or more, in s"),
        ((*GIVEN, "--delta-rows", "5"), "--delta-rows = 5.0: give it or --rows"),
        (("--rows", "inf"), "--rows = inf: give 0 or more, in rows"),
        (("--rows", "5"), "--events-per-second = None: give it, or --config"),
        (("--events-per-second", "5"), "--rows = None: give it, or --config"),
    ],
)
def test_what_cannot_be_is_refused_by_its_option(arguments: tuple[str, ...], says: str) -> None:
    assert refused(*arguments).startswith(says)


# ---------------------------------------------------------------------------------------- rates


def file(folder: Path, text: str) -> Path:
    path = folder / "rates.json"
    path.write_text(text)
    return path


def test_rates_are_those_of_the_file_and_options_go_before_them(tmp_path: Path) -> None:
    measured = {"load_rate": 30_000, "join_rate": 9_000, "release_rate": 7_000}
    path = file(tmp_path, json.dumps({"rates": measured | {"measured_row_bytes": 2_000}}))
    found = told(*GIVEN, "--rates", str(path), "--join-rate", "8000", "--row-bytes", "200")
    shown = {name: found["inputs"][name] for name in measured}
    assert [f["value"] for f in shown.values()] == [30_000, 8_000, 7_000]
    assert [f["origin"] for f in shown.values()] == ["measured", "given", "measured"]
    assert shown["load_rate"]["source"] == str(path)
    # Rows ten times as large were read.
    assert "measure with yours" in "".join(found["warnings"])


def test_lines_of_bench_load_are_rates_of_one_subtask(tmp_path: Path) -> None:
    about = {"parallelism": 2, "row_bytes": 300}
    lines = [
        {"measure": "table load", "value": 25_000.5, **about},
        {"measure": "submit to gate open", "value": 12, **about},
        {"measure": "stream joined, gate open", "value": 16_000, **about},
    ]
    found = rates.read(file(tmp_path, "\n".join(json.dumps(line) for line in lines) + "\n"))
    values = {name: figure.value for name, figure in found.items()}
    assert values == {"load_rate": 25_000.5, "join_rate": 8_000, "measured_row_bytes": 300}
    one = rates.read(file(tmp_path, json.dumps(lines[0])))
    assert one["load_rate"].value == 25_000.5


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "there is no rate in it"),
        ("{}", "there is no rate in it"),
        ("[]", "there is no rate in it"),
        ('{"rates": {"join_rate": 0}}', "join_rate = 0.0: give a number above 0, in events/s"),
        ('{"rates": {"load_rate": "fast"}}', "load_rate = 'fast': it is no number"),
        ('{"rates": {"load_rate": true}}', "load_rate = True: it is no number"),
        ("join: 3\n", "line 1 is not JSON"),
        ('{"measure": "table load"}', "load_rate = None: it is no number"),
    ],
)
def test_a_file_that_is_no_bench_s_is_refused(text: str, says: str, tmp_path: Path) -> None:
    assert says in refused(*GIVEN, "--rates", str(file(tmp_path, text)))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    assert "No such file" in refused(*GIVEN, "--rates", str(tmp_path / "none.json"))


# ------------------------------------------------------------------------------ the stream's rate


@pytest.mark.parametrize(
    ("partitions", "expected"),
    [
        ([], None),
        ([Since(0, 500, None, -1)], None),
        # An older topic: the whole window counts, also for a partition that was silent.
        ([Since(0, 1_100, 500, 3_000), Since(0, 7, None, -1)], 60),
        # A topic younger than the window: it counts from its first event.
        ([Since(0, 600, 0, 8_000), Since(0, 0, None, -1)], 300),
        ([Since(10, 610, 10, 8_000), Since(20, 20, None, -1)], 300),
        # One partition is older, or has older events only.
        ([Since(10, 610, 10, 8_000), Since(0, 30, 20, 9_000)], 61),
        ([Since(0, 600, 0, 8_000), Since(0, 7, None, -1)], 60),
        # Stamped by a clock that is ahead.
        ([Since(0, 60, 0, 99_000)], 60),
    ],
)
def test_the_rate_is_events_by_their_timestamps(
    partitions: list[Since], expected: float | None
) -> None:
    assert rate(partitions, from_ms=0, now_ms=10_000) == expected


# ---------------------------------------------------------------------------------------- shown


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0, "s", "0.0 s"),
        (9.94, "s", "9.9 s"),
        (95, "s", "95 s"),
        (130, "s", "2.2 min"),
        (3_600, "s", "60 min"),
        (7_300, "s", "2.0 h"),
        (200_000, "s", "2.3 d"),
        (None, "s", "never"),
        (999, "bytes", "999 bytes"),
        (1_500, "bytes", "1.5 kB"),
        (133e6, "bytes", "133 MB"),
        (4e18, "bytes", "4,000 PB"),
        (0.25, "events/s", "0.2 events/s"),
        (12_345.6, "events/s", "12,346 events/s"),
        (3, "subtasks", "3"),
        (0.836, "of capacity", "84% of capacity"),
    ],
)
def test_numbers_have_the_figures_that_somebody_reads(
    value: float | None, unit: str, text: str
) -> None:
    assert screen.shown(Figure(value, unit, Origin.GIVEN, "")) == text


def test_a_file_that_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    path.write_bytes(b"\x7fELF\xb7\xff")
    assert "it is no text" in refused(*GIVEN, "--rates", str(path))
