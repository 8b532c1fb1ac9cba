"""`tablegate sql` on a real broker and a real cluster: as a script and as somebody types."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ops import flink_run
from ops.cluster import ask
from ops.paths import ROOT
from ops.sql.errors import Exit
from ops.stack.flink import FlinkCluster
from tests.support.join_job import JoinJob, order, product
from tests.support.kafka import Kafka
from tests.support.terminal import Program

_COMMAND = [sys.executable, "-c", "from ops.cli import main; main()", "sql"]
_LIVING = {"RUNNING", "CREATED", "INITIALIZING", "RESTARTING", "FAILING"}
_TIMEOUT_S = 240


class Sessions:
    """Topics of a job that does not run, and sessions over them."""

    def __init__(self, kafka: Kafka, flink: FlinkCluster, folder: Path) -> None:
        self.kafka, self.flink, self.folder = kafka, flink, folder
        # The defaults of who never thought of SQL.
        miss = {"grace_ms": 5_000, "retry_after": "10 s"}
        self.job = JoinJob(kafka, flink, folder, partitions=1, settings={"miss": miss})
        kafka.produce(self.job.products, [product("p1", "mug"), product("p2", "bowl")])
        orders = [order(1, "p1"), order(2, "p9"), order(3, "p2"), (b"o4", b"no json")]
        kafka.produce(self.job.orders, orders)
        kafka.produce(self.job.outputs["dead"], [(b"d1", b"dead"), (b"d2", None)])

    def command(self, *arguments: str) -> list[str]:
        return [*_COMMAND, "--config", str(self.job.config), *arguments]

    @property
    def environment(self) -> dict[str, str]:
        here = {"PYTHONPATH": os.pathsep.join((str(ROOT), os.environ.get("PYTHONPATH", "")))}
        state = {"XDG_STATE_HOME": str(self.folder / "state")}
        return {**os.environ, **self.flink.environment, **here, **state}

    def run(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, standard output and standard error of a session that is no terminal's."""
        done = subprocess.run(
            self.command(*arguments),
            env=self.environment,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        return done.returncode, done.stdout, done.stderr

    def jobs(self) -> dict[str, dict[str, Any]]:
        """The jobs of sessions, by id."""
        found = flink_run.jobs(self.flink)
        prefix = f"{self.job.orders}.sql-"
        return {job["jid"]: job for job in found if job["name"].startswith(prefix)}

    def living(self) -> list[str]:
        return [j for j, job in self.jobs().items() if job["state"] in _LIVING]


@pytest.fixture(scope="module")
def sessions(
    kafka: Kafka, flink: FlinkCluster, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Sessions]:
    flink.start()
    found = Sessions(kafka, flink, tmp_path_factory.mktemp("sql-shell"))
    yield found
    for job_id in found.living():
        flink_run.cancel(flink, job_id)


def test_a_file_is_run_and_only_what_it_inserts_goes_on(sessions: Sessions, tmp_path: Path) -> None:
    file = tmp_path / "a.sql"
    file.write_text(
        """
        CREATE TEMPORARY VIEW cups AS SELECT * FROM enriched WHERE join_key LIKE 'p%';
        SELECT join_key, event, stream_offset FROM cups LIMIT 2;
        SELECT record_key, event, headers, problem FROM decided_events
        WHERE verdict = 'BAD_RECORD' LIMIT 1;
        SELECT k, v FROM dead_topic /*+ OPTIONS('scan.bounded.mode' = 'latest-offset') */;
        SHOW VIEWS;
        EXPLAIN SELECT verdict, COUNT(*) FROM misses GROUP BY verdict;
        CREATE TEMPORARY TABLE nowhere (verdict STRING) WITH ('connector' = 'blackhole');
        INSERT INTO nowhere SELECT verdict FROM decided_events;
        """
    )
    code, out, err = sessions.run("-f", str(file), "--json", "--timeout", "200")
    assert code == Exit.DONE, err
    lines = [json.loads(line)["row"] for line in out.splitlines()]
    hits = sorted((line["join_key"], line["stream_offset"]) for line in lines[:2])
    assert hits == [("p1", 0), ("p2", 2)]
    events = [json.loads(line["event"]) for line in lines[:2]]
    assert {event["product_name"] for event in events} == {"mug", "bowl"}
    # Bytes as text.
    assert (lines[2]["record_key"], lines[2]["event"]) == ("o4", "no json")
    # An output as a table, up to its end.
    assert lines[3:5] == [{"k": "d1", "v": "dead"}, {"k": "d2", "v": None}]
    views = [line["view name"] for line in lines[5:-2]]
    assert {"cups", "enriched", "misses", "hit_rate", "table_now"} <= set(views)
    assert "GroupAggregate" in lines[-2]["result"]
    assert "the job's grace and retries" in err

    # Each query was a job of its own, without checkpoints, and is gone.
    assert sessions.living() == [lines[-1]["job"]]
    inserted = lines[-1]["job"]
    assert sessions.jobs()[inserted]["name"] == lines[-1]["name"]
    states = sorted(job["state"] for job in sessions.jobs().values())
    assert states == ["CANCELED", "CANCELED", "FINISHED", "RUNNING"]
    for job_id in sessions.jobs():
        checkpoints = ask(sessions.flink, "GET", f"/jobs/{job_id}/checkpoints")["counts"]
        if job_id != inserted:
            assert checkpoints["total"] == 0

    # What goes on makes checkpoints as every job does, and commits no offsets with them.
    sessions.job.job_id = inserted
    flink_run.wait_running(sessions.flink, inserted)
    sessions.job.checkpoint()
    group = lines[-1]["name"].partition(":")[0]
    assert [
        sessions.kafka.committed(g, sessions.job.orders) for g in (sessions.job.orders, group)
    ] == [0, 0]
    flink_run.cancel(sessions.flink, inserted)


# Beside tests/topology/test_sql_engine.py and tests/ops/test_sql_shell.py it adds the exit code.
@pytest.mark.full
def test_of_a_file_with_an_error_nothing_is_run(sessions: Sessions, tmp_path: Path) -> None:
    before = sessions.jobs().keys()
    file = tmp_path / "b.sql"
    file.write_text("SELECT * FROM enriched LIMIT 1;\n\nSELECT *\nFROM enrichd;\n")
    code, out, err = sessions.run("-f", str(file))
    assert (code, out) == (Exit.REFUSED, "")
    assert f"{file}:4: Flink refuses this statement" in err
    assert "enrichd" in err
    assert sessions.jobs().keys() == before


# Beside tests/ops/test_sql_shell.py it adds what Flink says of a job that waits for slots.
@pytest.mark.full
def test_audits_that_got_no_slots_have_not_passed(sessions: Sessions) -> None:
    code, _, err = sessions.run("-e", "\\audits 5", "--set", "job.parallelism=3")
    assert code == Exit.FAILED
    assert "Not enough slots are free" in err
    assert err.count("NOT CHECKED, its job did not begin within 5 s") == 4, err
    assert "4 audits, 4 of them not passed (4 not checked)." in err
    assert sessions.living() == []


@pytest.mark.full
def test_somebody_types_and_interrupts_a_query(sessions: Sessions) -> None:
    with Program(sessions.command(), sessions.environment, str(ROOT)) as shell:
        prompt = f"{sessions.job.orders}>"
        shell.expect(prompt)

        shell.type("SELECT join_key, event FROM enriched\r;\r")
        job_id = shell.expect(r"job ([0-9a-f]{32})")[1]
        shell.expect("p2 .*bowl")
        assert job_id in sessions.living()
        shell.type("\x03")
        shell.expect(f"Job {job_id} is cancelled.*{prompt}")
        assert job_id not in sessions.living()
        # PyFlink sometimes takes a TaskManager down with a job that is cancelled (see JoinJob).
        sessions.flink.start()

        shell.type("SELECT ${STREAM_TOPICS};\r")
        shell.expect(r"Did you mean \$\{STREAM_TOPIC\}")
        shell.type("SELECT *\rFROM nothing;\r")
        shell.expect("line:2: Flink refuses this statement.*'nothing'.*not found")

        shell.type("SELECT join_key FROM misses;\r")
        shell.expect("submitting")
        shell.type("\x03")
        shell.expect(f"(is cancelled|nothing was submitted).*{prompt}")
        assert sessions.living() == []

        # What there is can be completed, columns of a table behind the cursor too.
        shell.type("SELECT stream_off FROM misses LIMIT 0")
        shell.type("\x1b[D" * len(" FROM misses LIMIT 0") + "\t")
        shell.expect("stream_offset")
        shell.type("\x03")
        shell.expect(prompt)

        # A result that changes is a table.
        shell.type("SELECT verdict, COUNT(*) AS n FROM decided_events GROUP BY verdict;\r")
        counts = ("HIT +2", "NOT_FOUND +1", "BAD_RECORD +1")
        shell.expect(r"-\n" + "".join(rf"(?=[^-]*{count}\n)" for count in counts) + "[^-]*3 rows")
        shell.type("\x03")
        shell.expect("is cancelled")

        sessions.flink.start()
        shell.type("\\audits\r")
        # The dead letters that stand there have no labels.
        shell.expect(r"4 audits, 1 of them not passed\.", deadline_s=500)
        shell.type("\\q\r")
        assert shell.wait() == Exit.DONE
    for file in ("10_wrong_nulls", "20_stale_joins", "30_duplicates"):
        assert re.search(rf"{file}\.sql:\d+: no rows", shell.seen)
    assert re.search(r"40_labels\.sql:\d+: ROWS FOUND", shell.seen)
    assert "Traceback" not in shell.seen
    assert "exception" not in shell.seen
