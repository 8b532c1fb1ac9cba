"""Opens a session on a cluster, and closes it whatever happens."""

from __future__ import annotations

import signal
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from jobs.clients import librdkafka_config
from jobs.preflight import inspect
from jobs.settings import Settings, load_merge
from jobs.sql.masking import Masks
from ops.cluster import Cluster
from ops.flink_run import last_cause
from ops.sql.errors import Exit, ShellError
from ops.sql.jvm import flink_client
from ops.sql.screen import Screen
from ops.sql.session import for_session, notes
from ops.sql.shell import Shell
from ops.sql.words import Vocabulary
from udfs.core.errors import TablegateError

if TYPE_CHECKING:
    from ops.sql.engine import Engine

_SIGNALS = (signal.SIGTERM, signal.SIGHUP)
# As a shell reports a process that a signal ended.
_SIGNAL_EXIT = 128


@dataclass(frozen=True)
class Session:
    """An open session."""

    shell: Shell
    engine: Engine
    screen: Screen
    masks: Masks
    name: str

    def run(self, inputs: Sequence[tuple[str, Path]]) -> Exit:
        """Texts one after another, until one of them does not end well. Raises TablegateError."""
        for text, file in inputs:
            code = self.told(text, file)
            if code is not Exit.DONE:
                return code
        return Exit.DONE

    def told(self, text: str, file: Path) -> Exit:
        """Run one text. Raises TablegateError, and ShellError when Flink's client is gone."""
        from py4j.protocol import Py4JError  # noqa: PLC0415  (see opened)
        from pyflink.util.exceptions import JavaException  # noqa: PLC0415

        try:
            return self.shell.run(text, file)
        except (Py4JError, JavaException) as error:
            raise ShellError(
                f"Flink's client says: {self.masks(last_cause(str(error)))}.",
                "Does the cluster answer? Its logs and the client's say more.",
            ) from error

    def vocabulary(self) -> Vocabulary:
        """What can be completed."""
        return Vocabulary(tuple(self.engine.names), self.engine.columns())


@contextmanager
def opened(
    settings: Settings,
    root: Path,
    cluster: Cluster,
    screen: Screen,
    start: str | None,
    python_files: Sequence[Path],
    timeout_s: float | None,
) -> Iterator[Session]:
    """A session on ``cluster`` for the job of ``settings``; other arguments as `tablegate sql`'s.

    Raises:
        TablegateError: the settings, the SQL files, the brokers or the cluster forbid it.
    """
    name = f"sql-{uuid.uuid4().hex[:6]}"
    masks = Masks.of(settings)
    own = for_session(settings, name, start)
    # Refused here at once instead of after a JVM's start.
    cluster.overview()
    for path in python_files:
        sys.path.insert(0, str(path.parent if path.suffix == ".py" else path))
    if settings.job.merge:
        load_merge(settings.job.merge)
    screen.note(f"Opening {name} on {cluster.rest_url}; Flink's client takes some seconds.")
    facts = inspect(settings)
    for note in (*facts.warnings, *notes(settings, start)):
        screen.note(masks(note))
    # Imported here: PyFlink takes seconds, and not every command of `tablegate` needs it.
    from udfs.targets import TargetResolver  # noqa: PLC0415

    table = settings.table
    with TargetResolver(
        librdkafka_config(settings), table.topic, table.isolation_level
    ) as resolver:
        targets = resolver.resolve()
    with _ended_by_signals(), flink_client(cluster, [path.resolve() for path in python_files]):
        from ops.sql.engine import Engine  # noqa: PLC0415

        screen.note("Flink's client is there; it makes the tables and views.")
        engine = Engine(own, facts, targets, root, masks)
        shell = Shell(engine, cluster, own, name, screen, masks, timeout_s=timeout_s)
        yield Session(shell, engine, screen, masks, name)


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """Leave by an exception where a signal would end the process, so that no query's job stays."""

    def leave(number: int, _: FrameType | None) -> None:
        sys.exit(_SIGNAL_EXIT + number)

    before = {number: signal.signal(number, leave) for number in _SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def interact(session: Session) -> Exit:
    """Ask and answer until somebody leaves."""
    from ops.sql.prompt import Prompt, history_file  # noqa: PLC0415  (a terminal's alone)

    prompt = Prompt(session.shell.job_name, session.vocabulary, history_file(), session.masks)
    # Read now: the first key that is pressed asks for them.
    session.vocabulary()
    session.screen.note("Ready. \\? helps, \\q leaves.")
    while True:
        try:
            text = prompt.ask().strip()
        except KeyboardInterrupt:
            continue
        except EOFError:
            break
        if text == "\\q":
            break
        if text:
            _answer(session, text)
    for job_id, name in session.shell.left_running().items():
        session.screen.note(f"Goes on: job {job_id} ({name}).")
    return Exit.DONE


def _answer(session: Session, text: str) -> None:
    try:
        session.told(text, Path("line"))
    except TablegateError as error:
        session.screen.error(session.masks(str(error)))
    except KeyboardInterrupt:
        session.screen.note("Interrupted.")
