"""The main job in a test: topics of its own, a settings file, and its outputs read back."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import psutil
import requests

from jobs.settings import from_mapping
from jobs.uids import JOIN, TABLE_SIDE
from ops import flink_run
from ops.cluster import ask
from ops.job_status import gate_is_open
from ops.stack.flink import FlinkCluster
from tests.support import warm_client
from tests.support.kafka import Kafka, Record

GATE = next(o for o in TABLE_SIDE if o.uid == "table-gate")

_DEADLINE_S = 120.0
_POLL_S = 0.2


class JoinJob:
    """Orders joined with products. Topic names are unique; ``job_id`` is that of the last start."""

    def __init__(
        self,
        kafka: Kafka,
        flink: FlinkCluster,
        folder: Path,
        *,
        partitions: int = 2,
        table_partitions: int | None = None,
        table_config: Mapping[str, str] | None = None,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        brokers: str | None = None,
    ) -> None:
        self.kafka, self.flink = kafka, flink
        self.orders = kafka.create_topic("orders", partitions)
        self.products = kafka.create_topic(
            "products",
            table_partitions or partitions,
            table_config or {"cleanup.policy": "compact"},
        )
        self.outputs = {n: kafka.create_topic(n, partitions) for n in ("enriched", "retry", "dead")}
        tables: dict[str, Any] = {
            "job": {"name": self.orders},
            "kafka": {"bootstrap_servers": brokers or kafka.bootstrap_servers},
            "stream": {"topic": self.orders, "key": {"from": "value", "path": "product"}},
            "table": {"topic": self.products, "fields": {"name": "product_name"}},
            "output": self.outputs,
            # Most tests ask what a miss is, and not whether its row comes a little later.
            "miss": {"grace_ms": 0, "retry_after": ""},
        }
        for table, values in (settings or {}).items():
            tables[table] = tables.get(table, {}) | dict(values)
        self.config = folder / f"{self.orders}.toml"
        self.config.write_text(from_mapping(tables).describe())
        self.job_id = ""

    def start(
        self,
        *,
        overrides: Sequence[str] = (),
        from_savepoint: str | None = None,
        python_files: Sequence[Path] = (),
        job_arguments: Sequence[str] = (),
        entry: Path = flink_run.ENRICH,
        wait: bool = True,
        by_command_line: bool = False,
    ) -> None:
        """Submit, and return when all tasks run; without ``wait`` at once.

        ``by_command_line`` as users do, by a `flink run` of its own; else by a client that stays.
        Files for the workers are only given with the former.
        """
        # PyFlink sometimes takes a TaskManager down with a job that is cancelled ("Reference count
        # must not be negative"); the next job needs one all the same.
        self.flink.start()
        client = warm_client.client()
        if by_command_line or python_files or client is None:
            self.job_id = flink_run.submit(
                self.flink,
                config=self.config,
                entry=entry,
                overrides=overrides,
                from_savepoint=from_savepoint,
                extra_python_files=python_files,
                job_arguments=job_arguments,
            )
        else:
            sets = [part for override in overrides for part in ("--set", override)]
            self.job_id = client.submit(
                self.flink,
                entry=entry,
                arguments=["--config", str(self.config), *sets, *job_arguments],
                from_savepoint=from_savepoint,
            )
        if wait:
            flink_run.wait_running(self.flink, self.job_id)

    def stop(self) -> str:
        """Stop with a savepoint, and return its path."""
        return flink_run.stop_with_savepoint(self.flink, self.job_id)

    def cancel(self) -> None:
        if self.job_id:
            flink_run.cancel(self.flink, self.job_id)

    def times_opened(self) -> int:
        """How often the gate opened, over all attempts, by what it logged."""
        return self.gate_said("open after")

    def gate_said(self, what: str) -> int:
        """How many lines of the gate, over all attempts, begin with these words."""
        return self.flink.logs().count(f"gate of {self.products}: {what}")

    def failure(self) -> str:
        """What the last failed attempt died of, "" if none did."""
        return flink_run.failure(self.flink, self.job_id)

    def gate_is_open(self) -> bool:
        return gate_is_open(self.flink.rest_url, self.job_id)

    def attempts(self) -> int:
        """How often the gate took targets, over all attempts, by what it logged."""
        return self.flink.logs().count(f"gate of {self.products}: targets of this attempt")

    def kill_task_manager(self) -> None:
        """``kill -9`` of the TaskManager that runs the join."""
        self.flink.kill_taskmanager(self._taskmanager_of(JOIN.name))

    def kill_gate_worker(self) -> None:
        """``kill -9`` of the Python process that runs the gate: its task fails, no more."""
        number = self._taskmanager_of(GATE.name)
        taskmanager = psutil.Process(self.flink.taskmanagers()[number])
        # In thread mode the join has no process of its own, so these are the gate's.
        workers = [c for c in taskmanager.children(recursive=True) if "python" in c.name()]
        assert workers, "the gate has no process of its own"
        for worker in workers:
            worker.kill()

    def _taskmanager_of(self, operator: str) -> int:
        (subtask, *_) = self._get(f"/jobs/{self.job_id}/vertices/{self._vertex(operator)}")[
            "subtasks"
        ]
        # The stack gives its TaskManagers the ids taskmanager-0, taskmanager-1 and so on.
        return int(subtask["taskmanager-id"].rpartition("-")[2])

    def parallelism_of(self, operator: str) -> int:
        """How many subtasks of that operator there are now."""
        return int(self._find_vertex(operator)["parallelism"])

    def _vertex(self, operator: str) -> str:
        return str(self._find_vertex(operator)["id"])

    def _find_vertex(self, operator: str) -> dict[str, Any]:
        vertices: list[dict[str, Any]] = self._get(f"/jobs/{self.job_id}")["vertices"]
        (found,) = [vertex for vertex in vertices if operator in vertex["name"]]
        return found

    def checkpoint(self) -> None:
        """Make a checkpoint now, and return when it is complete."""
        path = f"/jobs/{self.job_id}/checkpoints"
        trigger = ask(self.flink, "POST", path, checkpointType="FULL")["request-id"]

        def complete() -> bool:
            answer = self._get(f"{path}/{trigger}")
            operation = answer.get("operation") or {}
            assert "failureCause" not in operation, operation
            return bool(answer["status"]["id"] == "COMPLETED")

        self.wait_until(complete, "checkpoint")

    def held_events(self) -> int:
        """Events that are held now, by the join's counters, which count from this attempt on."""
        return self.counted("held_events") - self.counted("released_events")

    def counted(self, counter: str) -> int:
        """A counter of the join in this attempt, all subtasks together."""
        join = self._vertex(JOIN.name)
        listed = self._get(f"/jobs/{self.job_id}/vertices/{join}/metrics")
        names = [m["id"] for m in listed if m["id"].endswith(f".{counter}")]
        wanted = ",".join(names)
        found = self._get(f"/jobs/{self.job_id}/vertices/{join}/metrics?get={wanted}")
        return sum(int(m["value"]) for m in found)

    def completed_checkpoints(self) -> int:
        return int(self._get(f"/jobs/{self.job_id}/checkpoints")["counts"]["completed"])

    def outcomes(self, *, once: bool = True) -> dict[str, Any]:
        """What became of each event, by its key: the product's name, or the verdict of a miss.

        With ``once`` an event that came out more than once fails the test. Dead table rows are left
        out: their source says that they are no events.
        """
        records = [r for output in self.outputs for r in self.read(output)]
        events = [r for r in records if not self._is_row(r)]
        found = {
            (r.key or b"").decode(): r.header("tablegate-verdict") or _product_name(r)
            for r in events
        }
        keys = Counter(r.key for r in events)
        assert not once or len(found) == len(events), f"came out twice: {keys.most_common(5)}"
        return found

    def dead_rows(self) -> set[str]:
        """The sources (``topic[partition]@offset``) of the table's rows among the dead letters."""
        return {str(r.header("tablegate-source")) for r in self.read("dead") if self._is_row(r)}

    def read(self, output: str) -> list[Record]:
        return self.kafka.consume_all(self.outputs[output])

    def written(self) -> int:
        """Records in all outputs, as far as their log ends tell."""
        return sum(sum(self.kafka.end_offsets(topic).values()) for topic in self.outputs.values())

    def wait_until(self, met: Callable[[], bool], what: str) -> None:
        """Poll until ``met``; fail with the job's own failure when that takes too long."""
        deadline = time.monotonic() + _DEADLINE_S
        while not met():
            if time.monotonic() > deadline:
                raise AssertionError(f"not within {_DEADLINE_S:.0f} s: {what}\n{self.failure()}")
            time.sleep(_POLL_S)

    def wait_for(self, records: int) -> None:
        """Wait until the outputs hold at least so many records."""
        self.wait_until(lambda: self.written() >= records, f"{records} output records")

    def wait_open(self) -> None:
        self.wait_until(self.gate_is_open, "open gate")

    def _is_row(self, record: Record) -> bool:
        return (record.header("tablegate-source") or "").startswith(f"{self.products}[")

    def _get(self, path: str) -> Any:
        answer = requests.get(self.flink.rest_url + path, timeout=10)
        answer.raise_for_status()
        return answer.json()


def names(records: Sequence[Record]) -> dict[bytes | None, Any]:
    """Enriched records as event key to product name."""
    return {r.key: _product_name(r) for r in records}


def _product_name(enriched: Record) -> Any:
    return json.loads(enriched.value or b"{}").get("product_name")


def order(number: int, product: str) -> tuple[bytes, bytes]:
    """An order record (key, value)."""
    return f"o{number}".encode(), msgspec.json.encode({"product": product, "n": number})


def order_of(name: str, product: str) -> tuple[bytes, bytes]:
    """An order record (key, value) under a name that tells what the test asks with it."""
    return name.encode(), msgspec.json.encode({"product": product})


def product(key: str, name: str) -> tuple[bytes, bytes]:
    """A product record (key, value)."""
    return key.encode(), msgspec.json.encode({"name": name})
