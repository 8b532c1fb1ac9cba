"""Dead letters in a test, without a job: topics, a settings file, and `tablegate retry` on them."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from jobs.settings import from_mapping
from ops.cli import app
from ops.paths import ROOT
from ops.retry.ledger import ledger_of
from tests.support.kafka import Kafka, Message, Record

SEEN_MS = 1_700_000_000_000
"""When the first letter was first seen; each of the others a minute after the one before."""
OWN = (("trace", b"t-1"), ("trace", b"t-2"), ("empty", None))


class Letters:
    """Topics of a job that does not run."""

    def __init__(
        self,
        kafka: Kafka,
        folder: Path,
        *,
        partitions: int = 2,
        retry_after: str = "1 s",
        brokers: str | None = None,
        tables: Mapping[str, Any] | None = None,
    ) -> None:
        self.kafka = kafka
        names = ("orders", "products", "enriched", "retry", "dead")
        self.topics = {name: kafka.create_topic(name, partitions) for name in names}
        self.orders, self.dead = self.topics["orders"], self.topics["dead"]
        settings = {
            "job": {"name": self.orders},
            "kafka": {"bootstrap_servers": brokers or kafka.bootstrap_servers},
            "stream": {"topic": self.orders, "key": {"from": "value", "path": "product"}},
            "table": {"topic": self.topics["products"], "fields": {"name": "product_name"}},
            "output": {name: self.topics[name] for name in ("enriched", "retry", "dead")},
            "miss": {"retry_after": retry_after},
        }
        self.config = folder / f"{self.orders}.toml"
        self.config.write_text(from_mapping(settings | dict(tables or {})).describe())

    def write(self, *messages: Message, **options: bool) -> None:
        """Write letters to the dead-letter topic."""
        self.kafka.produce(self.dead, messages, **options)

    def letter(
        self, n: int, verdict: str = "NOT_FOUND", *, source: str | None = None, partition: int = 0
    ) -> Message:
        """Letter number ``n``, as the job writes one."""
        where = source or f"{self.orders}[1]@{n}"
        ours = {
            "verdict": verdict,
            "source": where,
            "attempt": "2",
            "first-seen": str(SEEN_MS + n * 60_000),
            "error": f"{where}: no row after 1 retries",
        }
        headers = [(f"tablegate-{name}", text.encode()) for name, text in ours.items()]
        value = json.dumps({"product": f"p{n}", "n": n}).encode()
        return Message(f"o{n}".encode(), value, [*OWN, *headers], 1_600_000_000_000 + n, partition)

    def run(self, command: str, *arguments: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of `tablegate retry`."""
        line = ["retry", command, "--config", str(self.config), *arguments]
        done = CliRunner().invoke(app, line)
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout, done.stderr

    def listed(self, *arguments: str) -> dict[str, Any]:
        """What `list --json` prints; the exit code must be 0."""
        code, out, told = self.run("list", "--json", *arguments)
        assert code == 0, told
        found: dict[str, Any] = json.loads(out)
        return found

    def replay(self, *arguments: str) -> str:
        """What `replay --yes` prints; the exit code must be 0."""
        code, out, told = self.run("replay", "--yes", *arguments)
        assert code == 0, told
        return out

    def start(self, *arguments: str, prelude: str = "") -> subprocess.Popen[str]:
        """`retry replay` in a process of its own, for tests that end it; ``prelude`` runs first."""
        main = f"{prelude}\nfrom ops.cli import main; main()"
        line = [sys.executable, "-c", main, "retry", "replay", "--config", str(self.config)]
        return subprocess.Popen(
            [*line, *arguments],
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def on_terminal(self, answer: str, *arguments: str) -> tuple[int, str, str]:
        """Exit code of `retry replay`, its stdout, and what a person saw who typed ``answer``."""
        ours, theirs = pty.openpty()
        main = "from ops.cli import main; main()"
        line = [sys.executable, "-c", main, "retry", "replay", "--config", str(self.config)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm"}
        process = subprocess.Popen(
            [*line, *arguments],
            env=environment,
            stdin=theirs,
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
        )
        os.close(theirs)
        os.write(ours, f"{answer}\n".encode())
        out, _ = process.communicate(timeout=60)
        seen = os.read(ours, 100_000).decode()
        os.close(ours)
        return process.returncode, out, seen

    def read(self, name: str) -> list[Record]:
        """Committed records of one of the topics."""
        return self.kafka.consume_all(self.topics[name])

    def ledger_exists(self) -> bool:
        return ledger_of(self.dead) in self.kafka.admin.list_topics(timeout=30).topics
