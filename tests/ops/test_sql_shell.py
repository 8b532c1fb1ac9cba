"""A session: what is checked and run in which order, and what becomes of its jobs."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.settings import from_mapping
from jobs.sql.files import SqlError
from jobs.sql.masking import Masks
from ops.sql.errors import Exit, ShellError, exit_code
from ops.sql.results import Change
from ops.sql.running import Clock, Running, Stage
from ops.sql.screen import Mode, Plain
from ops.sql.shell import Shell
from ops.sql.steps import Query
from tests.support.sql_shell import Cluster, Engine, rows
from udfs.core.errors import ConfigError, StackError

_SETTINGS = from_mapping(
    {
        "job": {"name": "orders"},
        "kafka": {"bootstrap_servers": "localhost:1"},
        "stream": {"topic": "orders", "key": {"from": "key"}},
        "table": {"topic": "customers", "fields": {"tier": "tier"}},
        "output": {"enriched": "orders.e", "retry": "r", "dead": "d"},
    }
)
_FILE = Path("-e")


class Rig:
    """A shell on an engine and a cluster that are not Flink's."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.engine = Engine(cluster)
        self.out, self.err = io.StringIO(), io.StringIO()

    def shell(
        self, *, as_json: bool = False, mode: Mode = Mode.AUTO, timeout_s: float | None = 5
    ) -> Shell:
        screen = Plain(self.out, self.err, as_json=as_json)
        return Shell(
            self.engine,
            # As much of one as a session asks for.
            self.cluster,  # type: ignore[arg-type]
            _SETTINGS,
            "sql-abc123",
            screen,
            Masks(["s3cret"]),
            timeout_s=timeout_s,
            mode=mode,
        )

    def run(self, text: str) -> Exit:
        return self.shell().run(text, _FILE)

    def states(self) -> list[str]:
        return [job["state"] for job in self.cluster.jobs.values()]


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Rig:
    cluster = Cluster()
    monkeypatch.setattr("ops.flink_run.ask", cluster.ask)
    monkeypatch.setattr("ops.sql.running.ask", cluster.ask)
    return Rig(cluster)


@pytest.fixture
def pressing() -> Iterator[None]:
    """Ctrl-C counts: tests that are started in the background ignore it, and so would a session."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


# --------------------------------------------------------------------------------- order


def test_all_statements_are_checked_before_the_first_one_is_run(rig: Rig) -> None:
    with pytest.raises(SqlError, match="-e:2: "):
        rig.run("INSERT INTO t SELECT 1;\nSTOP JOB 'x';")
    assert rig.cluster.jobs == {}


def test_who_waits_for_a_file_to_be_checked_is_told_so(rig: Rig) -> None:
    with pytest.raises(SqlError):
        rig.run("SELECT 1; SELECT 2; STOP JOB 'x';")
    assert "Checking 3 statements of -e; nothing runs yet." in rig.err.getvalue()


def test_each_query_is_run_with_the_settings_above_it(rig: Rig) -> None:
    rig.engine.endless = False
    rig.engine.set_to = {"a": "0"}
    rig.run("SELECT 1; SET 'a' = '1'; SELECT 2; SET 'b' = '2'; SELECT 3;")
    assert [line for line in rig.engine.log if line.startswith("run")] == [
        "run SELECT 1 with {'a': '0'}",
        "run SELECT 2 with {'a': '1'}",
        "run SELECT 3 with {'a': '1', 'b': '2'}",
    ]


def test_a_text_that_was_refused_leaves_no_setting(rig: Rig) -> None:
    with pytest.raises(SqlError):
        rig.run("SET 'a' = '1'; STOP JOB 'x';")
    assert rig.engine.set_to == {}


# --------------------------------------------------------------------------------- queries


def test_a_query_with_a_limit_ends_by_itself_and_its_job_with_it(rig: Rig) -> None:
    text = "SELECT a FROM t LIMIT 2"
    rig.engine.answers = {text: rows("x", "y", "z")}
    assert rig.run(f"{text};") is Exit.DONE
    assert rig.out.getvalue() == "a\nx\ny\n"
    assert rig.states() == ["CANCELED"]


def test_a_limit_on_a_result_that_changes_counts_the_rows_that_there_are(rig: Rig) -> None:
    text = "SELECT a FROM t LIMIT 2"
    rig.engine.insert_only = False
    changes = [("+I", "x"), ("-U", "x"), ("+U", "y"), ("+I", "z"), ("+I", "w")]
    rig.engine.answers = {text: [Change(op, (value,)) for op, value in changes]}
    assert rig.run(f"{text};") is Exit.DONE
    assert rig.out.getvalue() == "op\ta\n+I\tx\n-U\tx\n+U\ty\n+I\tz\n"


def test_a_query_that_is_bounded_ends_by_itself(rig: Rig) -> None:
    rig.engine.endless = False
    rig.engine.answers = {"SELECT 1": rows("x")}
    assert rig.run("SELECT 1;") is Exit.DONE
    assert rig.states() == ["FINISHED"]
    assert rig.err.getvalue() == ""


def test_a_query_whose_time_is_up_takes_its_job_along(rig: Rig) -> None:
    assert rig.run("SET 'tablegate.timeout' = '0.1'; SELECT 1;") is Exit.DONE
    assert rig.states() == ["CANCELED"]
    assert "time is up; job 00000000000000000000000000000001 is cancelled" in rig.err.getvalue()


def test_ctrl_c_takes_the_job_along(rig: Rig, pressing: None) -> None:
    class Pressed(io.StringIO):
        """Where a row is written when somebody presses Ctrl-C."""

        def write(self, text: str) -> int:
            if text == "x\n":
                os.kill(os.getpid(), signal.SIGINT)
            return super().write(text)

    rig.out = Pressed()
    rig.engine.answers = {"SELECT 1": rows("x")}
    before = signal.getsignal(signal.SIGINT)
    assert rig.run("SELECT 1; INSERT INTO t SELECT 2;") is Exit.INTERRUPTED
    # And what stood behind it is not run.
    assert rig.states() == ["CANCELED"]
    assert "is cancelled" in rig.err.getvalue()
    assert signal.getsignal(signal.SIGINT) is before


def _pressed_and_slow() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    # Longer than it takes to be seen.
    threading.Event().wait(0.3)


@pytest.mark.parametrize("text", ["SELECT 1;", "INSERT INTO t SELECT 1;"])
def test_ctrl_c_while_a_job_is_submitted_takes_it_along_when_it_is_there(
    text: str, rig: Rig, pressing: None
) -> None:
    rig.engine.while_submitting = _pressed_and_slow
    before = signal.getsignal(signal.SIGINT)
    assert rig.run(text) is Exit.INTERRUPTED
    assert rig.states() == ["CANCELED"]
    told = rig.err.getvalue()
    assert "as soon as it is there" in told
    assert "Job 00000000000000000000000000000001 is cancelled." in told
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("text", ["SELECT 1;", "INSERT INTO t SELECT 1;"])
def test_ctrl_c_while_a_submission_fails_says_that_nothing_runs(
    text: str, rig: Rig, pressing: None
) -> None:
    def refused() -> None:
        _pressed_and_slow()
        raise StackError("No.", "Do.")

    rig.engine.while_submitting = refused
    assert rig.run(text) is Exit.INTERRUPTED
    assert rig.states() == []
    assert "nothing was submitted" in rig.err.getvalue()


@pytest.mark.parametrize("text", ["SELECT 1;", "INSERT INTO t SELECT 1;"])
def test_a_submission_that_takes_too_long_is_told_and_its_job_ended_when_it_comes(
    text: str, rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ops.sql.submitting._SUBMIT_S", 0.1)
    told = threading.Event()

    def slow() -> None:
        assert told.wait(10)

    rig.engine.while_submitting = slow
    with pytest.raises(ShellError, match=r"has not submitted the job after 0\.1 s"):
        rig.run(text)
    told.set()
    assert rig.cluster.cancelled.wait(10)
    assert rig.states() == ["CANCELED"]


def test_a_job_without_a_slot_is_not_said_to_have_no_rows_yet(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ops.sql.running._ASK_EVERY_S", 0.0)
    stages = []
    (statement,) = rig.engine.read("SELECT 1;", _FILE)
    query = rig.engine.ready(statement)
    assert isinstance(query, Query)
    # As much of a cluster as a query asks for.
    with Running(rig.cluster, lambda: query.submit("q")) as running:  # type: ignore[arg-type]
        assert running.job_id
        for tasks in ("CREATED", "SCHEDULED", "DEPLOYING", "RUNNING"):
            rig.cluster.tasks = {tasks: 1, "RUNNING": 1}
            stages.append(running.stage())
    assert stages == [Stage.STARTING, Stage.STARTING, Stage.OPEN, Stage.OPEN]


def test_any_other_end_of_the_session_takes_the_job_along(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise SystemExit(143)

    monkeypatch.setattr(Plain, "query", gone)
    with pytest.raises(SystemExit):
        rig.run("SELECT 1;")
    assert rig.states() == ["CANCELED"]


def test_the_cluster_hears_that_somebody_waits(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ops.sql.running._BEAT_S", 0.01)
    rig.run("SET 'tablegate.timeout' = '0.2'; SELECT 1;")
    assert rig.cluster.heartbeats > 0


def test_a_job_that_failed_is_told_with_its_innermost_cause(rig: Rig) -> None:
    rig.engine.fails_with = RuntimeError("Failed to fetch next result")
    rig.cluster.trace = "java.lang.X: no\n\tat y\nCaused by: udfs.TargetError: topic is gone\n"
    with pytest.raises(ShellError, match=r"failed: udfs\.TargetError: topic is gone"):
        rig.run("SELECT 1;")


def test_a_submission_that_failed_is_told_as_it_is(rig: Rig) -> None:
    def refused() -> None:
        raise StackError("No.", "Do.")

    with (
        Running(rig.cluster, refused) as running,  # type: ignore[arg-type]
        pytest.raises(StackError, match=r"No\. Do\."),
    ):
        list(running.batches())


def test_json_lines_have_op_and_row(rig: Rig) -> None:
    rig.engine.endless = False
    rig.engine.answers = {"SELECT 1": rows("x")}
    rig.shell(as_json=True).run("SELECT 1;", _FILE)
    assert json.loads(rig.out.getvalue()) == {"op": "+I", "row": {"a": "x"}}


def test_in_table_mode_a_result_that_changes_is_told_at_its_end(rig: Rig) -> None:
    rig.engine.endless, rig.engine.insert_only = False, False
    changes = [("+I", "x"), ("+I", "z"), ("-U", "x"), ("+U", "y")]
    rig.engine.answers = {"SELECT 1": [Change(op, (value,)) for op, value in changes]}
    rig.run("SET 'tablegate.result-mode' = 'table'; SELECT 1;")
    assert rig.out.getvalue() == "a\ny\nz\n"


def test_a_clock_without_seconds_is_never_over() -> None:
    assert not Clock(None).over()
    assert Clock(0).over()


# --------------------------------------------------------------------------------- jobs


def test_an_insert_tells_id_and_name_and_goes_on(rig: Rig) -> None:
    shell = rig.shell()
    assert shell.run("INSERT INTO t SELECT 's3cret';", _FILE) is Exit.DONE
    job_id, name = rig.out.getvalue().splitlines()[1].split("\t")
    assert name == "orders.sql-abc123: INSERT INTO t SELECT '***'"
    assert shell.left_running() == {job_id: name}
    assert rig.states() == ["RUNNING"]


def test_who_writes_into_the_jobs_output_is_told_so(rig: Rig) -> None:
    rig.run("INSERT INTO enriched_topic SELECT 1;")
    assert "orders.e is what the job orders writes, too." in rig.err.getvalue()


def test_without_a_free_slot_a_note_says_what_the_query_waits_for(rig: Rig) -> None:
    rig.cluster.free_slots, rig.engine.endless = 0, False
    rig.run("SELECT 1;")
    assert "Not enough slots are free" in rig.err.getvalue()


def test_jobs_are_listed_the_living_first_and_the_newest_of_them(rig: Rig) -> None:
    for name, state in (
        ("a", "FINISHED"),
        ("b", "RUNNING"),
        ("x", "CANCELED"),
        ("c", "RUNNING"),
    ):
        rig.cluster.submit(name, state)
    for text in ("SHOW JOBS;", "\\jobs"):
        rig.out.truncate(0)
        rig.out.seek(0)
        rig.run(text)
        assert [line.split("\t")[1:] for line in rig.out.getvalue().splitlines()[1:]] == [
            ["RUNNING", "c"],
            ["RUNNING", "b"],
            ["CANCELED", "x"],
            ["FINISHED", "a"],
        ]


def test_a_sessions_job_is_cancelled_by_the_begin_of_its_id(rig: Rig) -> None:
    rig.cluster.jobs["abcd" + "0" * 28] = {
        "jid": "abcd" + "0" * 28,
        "name": "orders.sql-0a1b2c: SELECT 1",
        "state": "RUNNING",
        "start-time": 1,
    }
    assert rig.run("\\cancel abcd") is Exit.DONE
    assert rig.states() == ["CANCELED"]


def test_a_job_of_others_is_not_cancelled(rig: Rig) -> None:
    job_id = rig.cluster.submit("orders")
    with pytest.raises(ShellError, match=f"tablegate job cancel {job_id}"):
        rig.run(f"\\cancel {job_id}")
    assert rig.states() == ["RUNNING"]


@pytest.mark.parametrize("text", ["\\cancel", "\\cancel 00", "\\cancel 0000", "\\nothing"])
def test_a_command_that_means_nothing_is_refused(text: str, rig: Rig) -> None:
    for _ in range(2):
        rig.cluster.submit("orders.sql-0a1b2c: SELECT 1")
    with pytest.raises(ShellError) as caught:
        rig.run(text)
    assert exit_code(caught.value) is Exit.REFUSED
    assert rig.states() == ["RUNNING", "RUNNING"]


# --------------------------------------------------------------------------------- preferences


@pytest.mark.parametrize(
    "text",
    [
        "SET 'tablegate.result-mode' = 'tables'",
        "SET 'tablegate.timeout' = '1 min'",
        "SET 'tablegate.nothing' = '1'",
    ],
)
def test_a_preference_that_is_none_is_refused(text: str, rig: Rig) -> None:
    with pytest.raises(SqlError, match="-e:1: the shell takes no"):
        rig.run(f"{text};")


# --------------------------------------------------------------------------------- audits


def test_audits_pass_when_all_have_ended_without_rows(rig: Rig) -> None:
    rig.engine.audit_texts, rig.engine.endless = ("SELECT 1", "SELECT 2"), False
    assert rig.run("\\audits") is Exit.DONE
    assert "a.sql:1: no rows: SELECT 1" in rig.err.getvalue()
    assert "2 audits, 0 of them not passed.\n" in rig.err.getvalue()
    assert rig.states() == ["FINISHED", "FINISHED"]


def test_an_audit_that_did_not_end_has_not_passed(rig: Rig) -> None:
    rig.engine.audit_texts = ("SELECT 1", "SELECT 2")
    assert rig.run("\\audits 0") is Exit.FAILED
    assert "a.sql:1: NOT CHECKED, it did not end within 0 s: SELECT 1" in rig.err.getvalue()
    assert "2 audits, 2 of them not passed (2 not checked)." in rig.err.getvalue()
    assert rig.states() == ["CANCELED", "CANCELED"]


def test_an_audit_that_never_ran_has_not_passed_and_the_missing_slots_are_told(rig: Rig) -> None:
    rig.engine.audit_texts = ("SELECT 1",)
    rig.cluster.free_slots, rig.cluster.tasks = 0, {"SCHEDULED": 2, "RUNNING": 1}
    assert rig.run("\\audits 0") is Exit.FAILED
    said = rig.err.getvalue()
    assert "NOT CHECKED, its job did not begin within 0 s" in said
    assert said.index("Not enough slots are free") < said.index("NOT CHECKED")
    assert rig.states() == ["CANCELED"]


def test_what_may_be_withdrawn_is_no_finding_before_the_end(rig: Rig) -> None:
    rig.engine.audit_texts, rig.engine.insert_only = ("SELECT 1",), False
    rig.engine.answers = {"SELECT 1": rows("x")}
    assert rig.run("\\audits 0") is Exit.FAILED
    assert "NOT CHECKED, it did not end" in rig.err.getvalue()
    assert rig.out.getvalue() == ""


def test_what_only_grows_is_a_finding_also_without_an_end(rig: Rig) -> None:
    rig.engine.audit_texts = ("SELECT 1",)
    rig.engine.answers = {"SELECT 1": rows("x")}
    assert rig.run("\\audits 0") is Exit.FAILED
    assert "ROWS FOUND" in rig.err.getvalue()
    assert rig.out.getvalue().split() == ["a", "x"]


def test_an_audit_of_other_columns_is_refused_before_any_is_run(rig: Rig) -> None:
    rig.engine.audit_texts, rig.engine.selected = ("SELECT 1 AS a",), ("a",)
    with pytest.raises(SqlError, match=r"a\.sql:1: an audit gives the columns source, problem"):
        rig.run("\\audits")
    assert rig.cluster.jobs == {}


def test_an_audit_that_finds_rows_shows_some_and_the_others_are_run(rig: Rig) -> None:
    rig.engine.audit_texts = ("SELECT 1", "SELECT 2")
    rig.engine.answers, rig.engine.endless = {"SELECT 1": rows(*"abcdefghijklmno")}, False
    assert rig.run("\\audits 5") is Exit.FAILED
    assert "a.sql:1: ROWS FOUND: SELECT 1" in rig.err.getvalue()
    assert "a.sql:1: no rows: SELECT 2" in rig.err.getvalue()
    assert "2 audits, 1 of them not passed.\n" in rig.err.getvalue()
    assert rig.out.getvalue().split() == ["a", *"abcdefghij"]


def test_rows_that_were_withdrawn_are_no_finding(rig: Rig) -> None:
    rig.engine.audit_texts, rig.engine.insert_only = ("SELECT 1",), False
    rig.engine.endless = False
    rig.engine.answers = {"SELECT 1": [Change("+I", ("x",)), Change("-D", ("x",))]}
    assert rig.run("\\audits 5") is Exit.DONE


def test_an_audit_whose_job_failed_has_not_passed(rig: Rig) -> None:
    rig.engine.audit_texts = ("SELECT 1",)
    rig.engine.fails_with = RuntimeError("gone")
    assert rig.run("\\audits") is Exit.FAILED
    assert "NOT CHECKED, the job failed" in rig.err.getvalue()


def test_an_audit_whose_gate_did_not_open_has_not_passed(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.engine.audit_texts = ("SELECT 1",)
    monkeypatch.setattr(Running, "waits_for_its_table", lambda _: True)
    assert rig.run("\\audits 0") is Exit.FAILED
    assert "NOT CHECKED, the gate did not open within 0 s" in rig.err.getvalue()
    assert rig.states() == ["CANCELED"]


def test_exit_codes_tell_refused_from_failed() -> None:
    assert exit_code(SqlError(_FILE, 1, "No.", "Do.")) is Exit.REFUSED
    assert exit_code(ConfigError("a", 1, "do")) is Exit.REFUSED
    assert exit_code(StackError("No.", "Do.")) is Exit.FAILED
    assert exit_code(ShellError("No.", "Do.")) is Exit.FAILED
