"""An engine for the deploy actions that runs nothing, writes down what it was told, and fails where
a test says so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ops.deploy.journal import Version
from ops.deploy.port import Budget, Outcome
from ops.deploy.savepoints import Savepoint
from udfs.core.errors import StackError

READY = Outcome(ready=True, alive=True)
LATE = Outcome(ready=False, alive=True, reason="the stream's lag is 99999")
DEAD = Outcome(ready=False, alive=False, reason="failed: merge module not found")


@dataclass
class FakeEngine:
    """``fails`` names steps that raise; ``outcomes`` are handed out by version number."""

    name: str = "orders"
    fails: set[str] = field(default_factory=set)
    outcomes: dict[int, Outcome] = field(default_factory=dict)
    held: list[str] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)
    savepoint: Savepoint | None = None
    jobs: dict[str, str] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)
    clock: int = 1_000_000

    def _step(self, step: str) -> None:
        self.steps.append(step)
        if step.partition(" ")[0] in self.fails or step in self.fails:
            raise StackError(f"{step} failed.", "Look.")

    def running(self, name: str, *, patient: bool = False) -> list[str]:
        if patient and "running" in self.fails:
            raise StackError("running failed.", "Look.")
        return [job for job, called in self.jobs.items() if called == name]

    def submit(
        self, version: Version, savepoint: str, extra: Sequence[str] = (), *, table_only: bool
    ) -> str:
        kind = "load" if table_only else "submit"
        self._step(
            f"{kind} {version.number} from {savepoint or 'nothing'} {' '.join(extra)}".strip()
        )
        name = next((e.partition("=")[2] for e in extra if e.startswith("job.name=")), self.name)
        job = f"{'load' if table_only else 'job'}-{version.number}"
        self.jobs[job] = name
        return job

    def stop(self, job_id: str) -> str:
        self._step(f"stop {job_id}")
        del self.jobs[job_id]
        return f"file:/savepoints/{job_id}"

    def cancel(self, job_id: str) -> None:
        self._step(f"cancel {job_id}")
        self.jobs.pop(job_id, None)

    def wait_ready(self, version: Version, job_id: str, budget: Budget, stream_at: str) -> Outcome:
        self._step(f"wait {version.number} at {stream_at}")
        return self.outcomes.get(version.number, READY)

    def wait_loaded(self, version: Version, job_id: str, timeout_s: float) -> Outcome:
        self._step(f"wait-load {version.number}")
        return READY

    def read_savepoint(self, path: str) -> Savepoint | None:
        self._step(f"read {path}")
        return self.savepoint or Savepoint(path, 0, ())

    def uids(self, version: Version) -> Mapping[str, str]:
        return {"gated-join": "gated join"}

    def holds_events(self, version: Version, job_id: str) -> str:
        return self.held.pop(0) if self.held else ""

    def restarts(self, job_id: str) -> int:
        return self.attempts.pop(0) if self.attempts else 0

    def renew_workers(self, before_code: str, after_code: str) -> None:
        if before_code and before_code != after_code:
            self._step(f"restart-workers {before_code} {after_code}")

    def hand_over_offsets(self, old: Version, new: Version, savepoint: Savepoint) -> None:
        self._step(f"hand-over {savepoint.path}")

    def resend_waiting(
        self, old: Version, new: Version, savepoint: Savepoint, asked_ms: int
    ) -> None:
        self._step(f"resend {savepoint.path}")

    def scrub(self, version: Version, text: str) -> str:
        return text.replace("hunter2", "***")

    def say(self, text: str) -> None:
        pass

    def now_ms(self) -> int:
        self.clock += 1
        return self.clock
