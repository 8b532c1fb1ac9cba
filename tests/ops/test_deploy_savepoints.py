"""Savepoints, ids and failures, as plain values."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import pytest

from jobs.settings import from_mapping
from ops.deploy import packages
from ops.deploy.errors import DeployError, Exit
from ops.deploy.failures import explain
from ops.deploy.offsets import differing
from ops.deploy.operator_ids import operator_id
from ops.deploy.savepoints import (
    FileProblem,
    OperatorState,
    Savepoint,
    expired_tombstones,
    local_path,
    require_compatible,
    require_whole,
    source_offsets,
    unclaimed,
)
from ops.flink_run import last_cause
from ops.package import package
from tests.core.test_settings import MINIMAL

HOUR_MS = 3_600_000
# As Flink 2.3.0 wrote them.
SPLITS = (
    "0000000000000025000f6f72646572732d312d3030613934630000000100000000000001f68000000000000000",
    "0000000000000025000f6f72646572732d312d3030613934630000000000000000000001f28000000000000000",
)


def state(
    uid: str, *, stateful: bool = True, most: int = 128, splits: tuple[str, ...] = ()
) -> OperatorState:
    return OperatorState(operator_id(uid), uid, f"name of {uid}", 1, most, stateful, splits)


def savepoint(*operators: OperatorState, problems: tuple[FileProblem, ...] = ()) -> Savepoint:
    return Savepoint("s3://b/sp-1", 0, operators, files=9, problems=problems)


@pytest.mark.parametrize(
    ("uid", "expected"),
    [
        # Read from a savepoint that Flink 2.3.0 wrote: shorter and longer than a block of 16.
        ("gated-join", "c1296ea38647353661e75623fc592c08"),
        ("stream-source", "0d91bdd38cd5063d1baaef687efe08a4"),
        ("retry-side-output", "5fd841da48e63649fd76f57126acc165"),
        ("Sink Committer: enriched-sink", "d91fe39a8992bb9d19fdd987b40780e4"),
    ],
)
def test_an_operator_id_is_the_one_that_flink_computes(uid: str, expected: str) -> None:
    assert operator_id(uid) == expected


def test_state_that_nobody_takes_is_named_and_stateless_operators_may_go() -> None:
    found = savepoint(state("gated-join"), state("dedup"), state("old-map", stateful=False))
    assert unclaimed(found, {"gated-join": ""}) == ["dedup (name of dedup)"]
    with pytest.raises(DeployError, match=r"dedup .*--allowNonRestoredState") as caught:
        require_compatible(found, {"gated-join": ""}, 128)
    assert caught.value.code is Exit.REFUSED
    require_compatible(found, {"gated-join": "", "dedup": "", "new": ""}, 128)


@pytest.mark.parametrize(("mode", "other"), [("keyed", "broadcast"), ("broadcast", "keyed")])
def test_a_savepoint_of_the_other_lookup_is_refused_by_the_settings_name(
    mode: str, other: str
) -> None:
    uids = {"keyed": "gated-join", "broadcast": "broadcast-join"}
    found = savepoint(state(uids[mode]), state("table-source"))
    with pytest.raises(DeployError, match=f'"{mode}", and the new version has "{other}"') as caught:
        require_compatible(found, {uids[other]: "", "table-source": ""}, 128)
    assert caught.value.code is Exit.REFUSED
    require_compatible(found, {uids[mode]: "", "table-source": ""}, 128)


def test_a_savepoint_of_an_older_flink_names_ids_only() -> None:
    nameless = OperatorState(operator_id("dedup"), "", "", 1, 128, stateful=True)
    assert unclaimed(savepoint(nameless), {}) == [f"operator id {operator_id('dedup')}"]
    assert unclaimed(savepoint(nameless), {"dedup": ""}) == []


def test_another_number_of_key_groups_is_refused() -> None:
    found = savepoint(state("gated-join", most=256))
    with pytest.raises(DeployError, match="gated-join has 256"):
        require_compatible(found, {"gated-join": ""}, 128)
    with pytest.raises(DeployError, match="gated-join has 1"):
        require_compatible(savepoint(state("gated-join", most=1)), {"gated-join": ""}, 128)
    # What can only ever be one task.
    require_compatible(savepoint(state("tick-window", most=1)), {"tick-window": ""}, 128)


def test_a_damaged_savepoint_names_file_and_way_out() -> None:
    problems = tuple(FileProblem(f"s3://b/{n}", "gone") for n in range(7))
    with pytest.raises(DeployError, match=r"(?s)7 of its 9 .*s3://b/4: gone.*and 2 more") as caught:
        require_whole(savepoint(problems=problems))
    assert "--reload-table" in str(caught.value)
    require_whole(savepoint())


def test_the_streams_offsets_are_read_from_the_splits() -> None:
    found = savepoint(state("stream-source", splits=SPLITS), state("table-source"))
    assert source_offsets(found, "orders-1-00a94c") == {1: 502, 0: 498}
    assert source_offsets(found, "another") == {}


def test_a_partition_of_which_nothing_was_read_has_no_offset() -> None:
    untouched = SPLITS[0].replace("00000000000001f6", "fffffffffffffffe")
    found = savepoint(state("stream-source", splits=(untouched,)))
    assert source_offsets(found, "orders-1-00a94c") == {}


@pytest.mark.parametrize("split", ["", "00000001" + SPLITS[0][8:], SPLITS[0] + "00"])
def test_a_split_of_another_form_is_refused(split: str) -> None:
    with pytest.raises(DeployError, match="unknown form"):
        source_offsets(savepoint(state("stream-source", splits=(split,))), "orders")


def test_only_offsets_that_differ_are_set() -> None:
    assert differing({0: 5, 1: 7, 2: 0}, {0: 5, 1: 6}) == {1: 7, 2: 0}


def test_a_savepoint_older_than_the_tombstones_is_warned_of() -> None:
    assert expired_tombstones(0, 24 * HOUR_MS, 24 * HOUR_MS) == ""
    assert "25.0 h old" in expired_tombstones(0, 25 * HOUR_MS, 24 * HOUR_MS)


def test_local_paths() -> None:
    assert local_path("file:/a/b") == local_path("file:///a/b") == local_path("/a/b") == "/a/b"


# -------------------------------------------------------------------------------------- failures


@pytest.mark.parametrize(
    ("trace", "expected"),
    [
        (
            "Could not restore keyed state backend\nFileNotFoundException: file:/sp/84c7 (No",
            r"file:/sp/84c7 is missing.*--reload-table",
        ),
        (
            "Exception while creating StreamOperatorStateContext.\nCaused by: java.io.EOFException",
            r"damaged \(EOFException.*--reload-table",
        ),
        (
            "Could not restore keyed state backend\nCaused by: VersionMismatchException: found -1",
            r"damaged \(VersionMismatchException.*--reload-table",
        ),
        (
            f"Cannot map checkpoint/savepoint state for operator {operator_id('gated-join')} to",
            r"operator gated-join,",
        ),
        (
            "T\nCaused by: udfs.core.errors.TargetError: state belongs to cluster X\n x",
            r"^state belongs to cluster X$",
        ),
        (
            "T\nudfs.core.errors.TableTooLargeError: rows: 9 rows take 2 MB\n x",
            r"^rows: 9 rows take 2 MB$",
        ),
        ("Failed.\nCaused by: a.B: outer\nCaused by: c.D: inner\n\tat x", r"^c\.D: inner$"),
        ("", "^$"),
    ],
)
def test_a_failure_says_what_to_do(trace: str, expected: str) -> None:
    assert re.search(expected, explain(trace, ["gated-join"]), re.DOTALL)


def test_the_last_cause_is_short() -> None:
    assert last_cause("Caused by: " + "x" * 9_000) == "x" * 600


# -------------------------------------------------------------------------------------- packages


def test_the_uids_are_those_of_the_versions_settings(tmp_path: Path) -> None:
    path = tmp_path / "p.zip"
    package(path)

    def uids(**tables: Any) -> set[str]:
        return set(packages.uids(path, from_mapping(MINIMAL | tables)))

    plain = uids()
    also = uids(output={**MINIMAL["output"], "also": {"orders.live": "emit_null"}})
    assert also - plain == {
        "also-orders.live-table",
        "also-orders.live-columns",
        "also-orders.live-sink",
        "Sink Committer: also-orders.live-sink",
    }
    assert plain - uids(miss={"retry_after": ""}) == {
        "retry-records",
        "retry-route",
        "retry-source",
        "retry-delay",
    }
    broadcast = uids(join={"lookup_state": "broadcast"})
    assert (broadcast - plain, plain - broadcast) == ({"broadcast-join"}, {"gated-join"})
    assert uids(stats={"topic": "orders.stats"}) - plain == {"Sink Committer: stats-sink"}
    assert "dead-side-output" in plain


def test_the_uids_come_out_of_the_versions_own_package(tmp_path: Path) -> None:
    path = tmp_path / "p.zip"
    package(path)
    found = packages.uids(path, from_mapping(MINIMAL))
    assert found["gated-join"] == "gated join"
    assert {"stream-source", "enriched-sink", "Sink Committer: enriched-sink"} <= set(found)
    assert "Sink Committer: gated-join" not in found


def test_a_package_without_uids_is_named(tmp_path: Path) -> None:
    path = tmp_path / "p.zip"
    with zipfile.ZipFile(path, "w") as zipped:
        zipped.writestr("a.py", "")
    with pytest.raises(DeployError, match="has no jobs/uids"):
        packages.uids(path, from_mapping(MINIMAL))


def test_only_what_workers_load_counts_as_their_code(tmp_path: Path) -> None:
    def digest(files: dict[str, str], module: str = "") -> str:
        with zipfile.ZipFile(tmp_path / "p.zip", "w") as zipped:
            for name, text in files.items():
                zipped.writestr(name, text)
        (tmp_path / "m.py").write_text(module)
        return packages.code(tmp_path, "p.zip", ["m.py"])

    first = digest({"udfs/a.py": "1", "jobs/b.py": "1"})
    assert digest({"udfs/a.py": "1", "jobs/b.py": "2"}) == first
    assert digest({"udfs/a.py": "2", "jobs/b.py": "1"}) != first
    assert digest({"udfs/a.py": "1", "jobs/b.py": "1"}, "x = 1") != first
