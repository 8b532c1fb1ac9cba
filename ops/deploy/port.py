"""What the actions need done, as an interface: `ops.deploy.engine` does it, tests pretend to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ops.deploy.journal import Version
from ops.deploy.savepoints import Savepoint


@dataclass(frozen=True, slots=True)
class Outcome:
    """How waiting for a job ended; ``alive`` says that it runs, or will by itself."""

    ready: bool
    alive: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """How long and how far behind. Seconds; records."""

    timeout_s: float
    load_timeout_s: float
    max_lag: int


class Engine(Protocol):
    """Everything outside the journal that the actions touch."""

    def running(self, name: str, *, patient: bool = False) -> list[str]:
        """Ids of the jobs of that name that have not ended.

        ``patient`` waits for a JobManager that is being replaced.
        """
        ...

    def submit(
        self, version: Version, savepoint: str, extra: Sequence[str] = (), *, table_only: bool
    ) -> str:
        """Submit the version with further overrides, and return the job's id."""
        ...

    def stop(self, job_id: str) -> str:
        """Stop the job with a savepoint, never draining, and return its path."""
        ...

    def cancel(self, job_id: str) -> None:
        """Cancel the job; one that has ended is no error."""
        ...

    def wait_ready(self, version: Version, job_id: str, budget: Budget, stream_at: str) -> Outcome:
        """Wait until the gate is open and the stream's lag under its budget.

        ``stream_at`` is the savepoint at whose offsets the stream goes on.
        """
        ...

    def wait_loaded(self, version: Version, job_id: str, timeout_s: float) -> Outcome:
        """Wait until the gate of a run without a stream is open."""
        ...

    def read_savepoint(self, path: str) -> Savepoint | None:
        """The savepoint; None when this machine cannot see it."""
        ...

    def uids(self, version: Version) -> Mapping[str, str]:
        """The version's uids, each with its operator's name."""
        ...

    def holds_events(self, version: Version, job_id: str) -> str:
        """Why events would be lost if the job's state were left behind; "" when none would."""
        ...

    def restarts(self, job_id: str) -> int:
        """How often the job was restarted."""
        ...

    def renew_workers(self, before_code: str, after_code: str) -> None:
        """Restart the TaskManagers where they would go on with the old code."""
        ...

    def hand_over_offsets(self, old: Version, new: Version, savepoint: Savepoint) -> None:
        """See to it that the new version's group stands where the savepoint does in the stream."""
        ...

    def resend_waiting(
        self, old: Version, new: Version, savepoint: Savepoint, asked_ms: int
    ) -> None:
        """See to it that the new version gets the events that waited in the old one's state.

        ``asked_ms`` is when the old one was asked to stop.
        """
        ...

    def scrub(self, version: Version, text: str) -> str:
        """The text without the version's secrets."""
        ...

    def say(self, text: str) -> None:
        """Tell the person who waits."""
        ...

    def now_ms(self) -> int:
        """Milliseconds since the epoch."""
        ...
