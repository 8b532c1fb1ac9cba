"""What deploy, upgrade, rollback and rescale do, step by step, and what each step leaves behind.

The order is the point: a step that can fail comes before the one that cannot be taken back, and the
journal is written before each step that changes the cluster. All that touches Flink, Kafka or the
clock goes through `Engine`, so that tests can bring one that fails where they say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ops.deploy import savepoints
from ops.deploy.errors import DeployError, Exit
from ops.deploy.journal import Journal, Result, Version
from ops.deploy.port import Budget, Engine, Outcome
from ops.deploy.savepoints import Savepoint
from udfs.core.errors import TablegateError

# The job that loads the table beside the running one needs a name of its own, or nobody could tell
# them apart.
_LOAD_SUFFIX = ".table-load"
_REASON_LENGTH = 2_000
_INTERRUPTED = "the command that started it was interrupted"
# A stop's savepoint may take as long; when exactly it was asked for is not in the journal.
_STOP_MS = 300_000
# However short the new version's time was: the old one has shown that it comes up.
_BACK_S = 300.0


class Deployer:
    """The actions on one job."""

    def __init__(self, journal: Journal, engine: Engine, budget: Budget) -> None:
        self._journal = journal
        self._engine = engine
        self._budget = budget

    def recover(self) -> None:
        """Finish what an interrupted command left in the journal, by what runs.

        To be called by who holds the journal's lock: then no command is at work.
        """
        versions = self._journal.versions()
        unfinished = [version for version in versions if version.result is Result.STARTING]
        if not unfinished:
            return
        known = {version.job_id for version in versions}
        running = self._engine.running(self._journal.job)
        new_jobs = [job for job in running if job not in known]
        for version in unfinished:
            last = version.number == versions[-1].number
            # Submitted by a `flink run` whose end nobody waited for.
            if last and version.started_from and not version.job_id and len(new_jobs) == 1:
                version = replace(version, job_id=new_jobs[0])  # noqa: PLW2901  (found just now)
            if version.job_id in running:
                self._engine.say(
                    f"The command that started version {version.number} was interrupted; its job "
                    f"{version.job_id} runs."
                )
                self._resend_of_before(version)
                self._journal.take_over(version.ended(Result.NOT_READY, _INTERRUPTED))
            else:
                self._journal.write(version.ended(Result.FAILED, _INTERRUPTED))

    def _resend_of_before(self, version: Version) -> None:
        """What an interrupted reload owes: the events that waited in the version before it."""
        if version.action != "reload":
            return
        before = [v for v in self._journal.versions() if v.number < version.number]
        old = next((v for v in reversed(before) if v.stopped_with and v.stopped_at_ms), None)
        left = self._engine.read_savepoint(old.stopped_with) if old is not None else None
        if old is None or old.stopped_at_ms is None or left is None:
            self._engine.say(
                f"Events that waited for their next try in the version before {version.number} may "
                "be left behind: its savepoint cannot be read."
            )
            return
        self._engine.resend_waiting(old, version, left, old.stopped_at_ms - _STOP_MS)

    # ------------------------------------------------------------------------------ actions

    def deploy(self, new: Version, savepoint: str = "") -> Version:
        """Start a job that does not run yet.

        Without a savepoint the table is loaded first, in a run without the stream.

        Raises:
            DeployError: see its code.
        """
        new = self._journal.write(new)
        try:
            if not savepoint:
                savepoint = self._load_table(new)
            new, outcome = self._start(new, savepoint)
        except TablegateError as error:
            self._failed(new, str(error))
            raise
        return self._settle_alone(new, savepoint, outcome)

    def upgrade(self, new: Version, old: Version, savepoint: str = "") -> Version:
        """Replace the running version by one that takes its state.

        Args:
            new: the version to start.
            old: the current one.
            savepoint: where to start from when the old one does not run; its last one by default.

        Raises:
            DeployError: see its code.
        """
        new = self._journal.write(new)
        job_id = self._running(old)
        if job_id:
            old = self._stop(old, job_id, new)
            savepoint = old.stopped_with
        else:
            savepoint = savepoint or old.stopped_with
        try:
            self._require_usable(new, savepoint)
            new, outcome = self._start(new, savepoint, before_code=old.code)
        except TablegateError as error:
            outcome = Outcome(ready=False, alive=False, reason=str(error))
            new = self._latest(new)
        return self._settle(new, old, savepoint, outcome)

    def reload(self, new: Version, old: Version) -> Version:
        """Replace the running version by one that loads the table anew while the old one runs.

        Raises:
            DeployError: see its code.
        """
        new = self._journal.write(new)
        job_id = self._running(old)
        try:
            if not job_id:
                raise DeployError(
                    f"Version {old.number} does not run, so there is nothing to load beside.",
                    "`tablegate deploy --anew` loads the table and starts without state.",
                    Exit.REFUSED,
                )
            self._require_nothing_held(old, job_id)
            table = self._load_table(new)
            restarts = self._engine.restarts(job_id)
            # Again: the load may have taken an hour.
            self._require_nothing_held(old, job_id)
        except TablegateError as error:
            self._failed(new, str(error))
            raise
        asked_ms = self._engine.now_ms()
        old = self._stop(old, job_id, new)
        self._engine.say("The stream stands still until the new version has started.")
        left: Savepoint | None = None
        try:
            left = self._readable(old.stopped_with)
            self._require_not_restarted(job_id, restarts)
            self._engine.hand_over_offsets(old, new, left)
            new, outcome = self._start(
                new,
                table,
                extra=["stream.start=committed"],
                before_code=old.code,
                stream_at=old.stopped_with,
            )
        except TablegateError as error:
            outcome = Outcome(ready=False, alive=False, reason=str(error))
            new = self._latest(new)
        # Only when there is no way back: the old version, started again, has them in its state. And
        # before the journal says that all is done: `recover` repeats it when we are interrupted.
        if outcome.ready and left is not None:
            self._engine.resend_waiting(old, new, left, asked_ms)
        return self._settle(new, old, old.stopped_with, outcome)

    def rollback(self, new: Version, old: Version | None, savepoint: str) -> Version:
        """Replace the current version by an earlier one, started from ``savepoint``.

        There is no way back from here by itself: who rolls back does not want what was there.

        Raises:
            DeployError: see its code.
        """
        new = self._journal.write(new)
        if old is not None and (job_id := self._running(old)):
            try:
                old = self._stop(old, job_id, new)
            except TablegateError as error:
                # Perhaps the very reason to roll back; its retained checkpoints stay.
                self._engine.say(f"No savepoint of version {old.number}: {error} It is cancelled.")
                try:
                    self._engine.cancel(job_id)
                except TablegateError as left:
                    self._failed(new, f"version {old.number} could not be cancelled: {left}")
                    raise
        try:
            new = self._latest(new)
            new, outcome = self._start(new, savepoint, before_code=old.code if old else "")
        except TablegateError as error:
            outcome = Outcome(ready=False, alive=False, reason=str(error))
            new = self._latest(new)
        return self._settle_alone(new, savepoint, outcome)

    def copy(self, source: Version, action: str, overrides: Sequence[str] = ()) -> Version:
        """A new version made of the files and settings of ``source``; not written yet."""
        new = replace(
            source,
            number=self._journal.next_number(),
            action=action,
            at_ms=self._engine.now_ms(),
            overrides=(*source.overrides, *overrides),
            copy_of=source.number if action == "rollback" else None,
            job_id="",
            started_from="",
            stopped_with="",
            stopped_at_ms=None,
            result=Result.STARTING,
            reason="",
        )
        self._journal.copy_files(source, new)
        return new

    # ------------------------------------------------------------------------------ steps

    def _running(self, version: Version) -> str:
        """The id of the version's job if it runs, else "".

        Raises:
            DeployError: another job of this name runs, which the journal does not know.
        """
        jobs = self._engine.running(self._journal.job)
        strangers = [job for job in jobs if job != version.job_id]
        if strangers:
            raise DeployError(
                f"Job {', '.join(strangers)} is called {self._journal.job} and is not that of "
                f"version {version.number} ({version.job_id or 'never submitted'}).",
                "Stop it with `flink stop`, then start from its savepoint: "
                "`tablegate deploy --anew --savepoint PATH`.",
                Exit.REFUSED,
            )
        return version.job_id if jobs else ""

    def _stop(self, old: Version, job_id: str, new: Version) -> Version:
        self._engine.say(f"Stopping version {old.number} (job {job_id}) with a savepoint ...")
        try:
            savepoint = self._engine.stop(job_id)
        except TablegateError as error:
            self._failed(new, f"version {old.number} gave no savepoint: {error}")
            raise
        self._engine.say(f"Savepoint {savepoint}")
        return self._journal.write(old.stopped(savepoint, self._engine.now_ms()))

    def _load_table(self, new: Version) -> str:
        """Load the table in a run without the stream, and return the savepoint of that."""
        settings = new.settings()
        name = f"{self._journal.job}{_LOAD_SUFFIX}"
        if self._engine.running(name):
            raise DeployError(
                f"A job called {name} runs already, left by an interrupted command.",
                "Cancel it with `flink cancel`, then try again.",
                Exit.REFUSED,
            )
        extra = [f"job.name={name}"]
        if settings.job.exactly_once:
            # Kafka fences a producer when another one takes its transactional id.
            prefix = f"{settings.job.transactional_id_prefix}{_LOAD_SUFFIX}"
            extra.append(f"job.transactional_id_prefix={prefix}")
        self._engine.say(f"Loading the table with version {new.number}, without the stream ...")
        job_id = self._engine.submit(new, "", extra, table_only=True)
        try:
            savepoint = self._loaded(new, job_id)
        except BaseException:
            # Also on Ctrl-C: it would go on loading for nobody.
            self._cancel(replace(new, job_id=job_id))
            raise
        self._engine.say(f"Loaded: savepoint {savepoint}")
        self._require_usable(new, savepoint)
        return savepoint

    def _loaded(self, new: Version, job_id: str) -> str:
        outcome = self._engine.wait_loaded(new, job_id, self._budget.load_timeout_s)
        if not outcome.ready:
            raise DeployError(
                f"The table was not loaded: {_sentence(outcome.reason)}",
                "See `gate of` in the TaskManagers' logs.",
            )
        return self._engine.stop(job_id)

    def _start(
        self,
        new: Version,
        savepoint: str,
        *,
        extra: Sequence[str] = (),
        before_code: str = "",
        stream_at: str = "",
        budget: Budget | None = None,
    ) -> tuple[Version, Outcome]:
        if not savepoint:
            raise DeployError(
                "There is no savepoint to start from.",
                "Give one with --savepoint, or use `tablegate deploy --anew`.",
                Exit.REFUSED,
            )
        self._engine.renew_workers(before_code, new.code)
        new = self._journal.write(replace(new, started_from=savepoint))
        self._engine.say(f"Starting version {new.number} from {savepoint} ...")
        job_id = self._engine.submit(new, savepoint, extra, table_only=False)
        new = self._journal.write(replace(new, job_id=job_id))
        return new, self._engine.wait_ready(
            new, job_id, budget or self._budget, stream_at or savepoint
        )

    def _require_usable(self, new: Version, path: str) -> None:
        found = self._engine.read_savepoint(path) if path else None
        if found is not None:
            savepoints.require_whole(found)
            settings = new.settings()
            uids = self._engine.uids(new)
            savepoints.require_compatible(found, uids, settings.job.max_parallelism)

    def _require_nothing_held(self, old: Version, job_id: str) -> None:
        if reason := self._engine.holds_events(old, job_id):
            raise DeployError(
                f"Version {old.number} may hold events that only its own state has, and that would "
                f"be lost: {reason}.",
                "Wait until `tablegate status` says ready. In the mode gate.consistency = "
                '"continuous" some are always held: first run `tablegate upgrade` with --set '
                "gate.consistency=startup, then --reload-table with the mode that you want; and so "
                "with miss.grace_ms=0, when there are always misses that wait for their row, and "
                'with another output.on_miss than "hold".',
                Exit.REFUSED,
            )

    def _require_not_restarted(self, job_id: str, restarts: int) -> None:
        if self._engine.restarts(job_id) != restarts:
            raise DeployError(
                f"Job {job_id} was restarted while it was being stopped, and may have held events "
                "again.",
                "Try again.",
            )

    def _readable(self, path: str) -> Savepoint:
        found = self._engine.read_savepoint(path)
        if found is None:
            raise DeployError(
                f"Savepoint {path} cannot be read from this machine, so the stream's offsets in it "
                "cannot be handed over.",
                "Run the command where the savepoints can be read.",
            )
        return found

    # ------------------------------------------------------------------------------ endings

    def _settle_alone(self, new: Version, savepoint: str, outcome: Outcome) -> Version:
        """The end where there is no version to go back to."""
        if outcome.ready:
            return self._journal.take_over(new.ended(Result.RUNNING))
        reason = self._engine.scrub(new, outcome.reason)[:_REASON_LENGTH]
        if outcome.alive:
            self._journal.take_over(new.ended(Result.NOT_READY, reason))
            raise DeployError(
                f"Version {new.number} (job {new.job_id}) runs, and is not ready: "
                f"{_sentence(reason)}",
                "Follow it with `tablegate status --wait`.",
                Exit.NOT_READY,
            )
        self._must_cancel(new, reason, f"It was started from {savepoint}.")
        self._failed(new, reason)
        raise DeployError(
            f"Version {new.number} did not start from {savepoint}: {_sentence(reason)}",
            "Nothing of this job runs. Try again once the cause is removed; `tablegate "
            "deployments` lists other savepoints to start from.",
            Exit.DOWN,
        )

    def _settle(self, new: Version, old: Version, savepoint: str, outcome: Outcome) -> Version:
        """The end where the old version can be started again from ``savepoint``."""
        if outcome.ready:
            return self._journal.take_over(new.ended(Result.RUNNING))
        reason = self._engine.scrub(new, outcome.reason)[:_REASON_LENGTH]
        self._engine.say(f"Version {new.number} is not ready: {reason}")
        self._must_cancel(
            new, reason, f"`tablegate rollback` then starts version {old.number} from {savepoint}."
        )
        self._failed(new, reason)
        again = self.copy(old, "rollback")
        again = self._journal.write(replace(again, reason=f"version {new.number}: {reason}"))
        self._engine.say(f"Rolling back: version {again.number} is version {old.number} again.")
        try:
            patient = replace(self._budget, timeout_s=max(self._budget.timeout_s, _BACK_S))
            again, back = self._start(again, savepoint, before_code=new.code, budget=patient)
        except TablegateError as error:
            back = Outcome(ready=False, alive=False, reason=str(error))
            again = self._latest(again)
        return self._rolled_back(new, again, old, savepoint, reason, back)

    def _rolled_back(
        self,
        new: Version,
        again: Version,
        old: Version,
        savepoint: str,
        reason: str,
        back: Outcome,
    ) -> Version:
        if not back.ready and not back.alive:
            why = self._engine.scrub(again, back.reason)[:_REASON_LENGTH]
            self._must_cancel(again, why, f"It was started from {savepoint}.")
            self._failed(again, why)
            raise DeployError(
                f"Version {new.number} did not become ready ({reason}), and version {old.number} "
                f"did not start again ({why}). Nothing of this job runs.",
                f"Its state is in {savepoint}: `tablegate rollback --to {old.number} --savepoint "
                f"{savepoint}` once the cause is removed.",
                Exit.DOWN,
            )
        self._journal.take_over(
            again.ended(Result.RUNNING if back.ready else Result.NOT_READY, again.reason)
        )
        state = "is ready" if back.ready else f"runs, and is not ready yet ({back.reason})"
        raise DeployError(
            f"Rolled back. Version {new.number} did not become ready: {_sentence(reason)}",
            f"Version {again.number}, which is version {old.number} again, {state} "
            f"(job {again.job_id}).",
            Exit.ROLLED_BACK,
        )

    def _cancel(self, version: Version) -> None:
        if not version.job_id:
            return
        try:
            self._engine.cancel(version.job_id)
        except TablegateError as error:
            self._engine.say(f"Job {version.job_id} was not cancelled: {error}")

    def _must_cancel(self, version: Version, reason: str, remedy: str) -> None:
        """Cancel a version before another one is started in its place.

        Raises:
            DeployError: it may run on, so that a second one would do everything twice. It is the
                current version then.
        """
        try:
            for job_id in [version.job_id] if version.job_id else self._strays():
                self._engine.cancel(job_id)
        except TablegateError as error:
            told = self._engine.scrub(version, f"{reason}; not cancelled: {error}")
            self._journal.take_over(version.ended(Result.NOT_READY, told[:_REASON_LENGTH]))
            raise DeployError(
                f"Version {version.number} did not become ready ({reason}) and could not be "
                f"cancelled, so its job {version.job_id or '(id unknown)'} may run, and nothing "
                f"else was started: {error}",
                f"Look at `tablegate status` once the JobManager answers. {remedy}",
                Exit.NOT_READY,
            ) from error

    def _strays(self) -> list[str]:
        """Jobs of this name that no version knows: of a `flink run` that failed too late."""
        known = {version.job_id for version in self._journal.versions()}
        running = self._engine.running(self._journal.job, patient=True)
        return [job for job in running if job not in known]

    def _failed(self, version: Version, reason: str) -> None:
        latest = self._latest(version)
        text = self._engine.scrub(version, reason)[:_REASON_LENGTH]
        self._journal.write(latest.ended(Result.FAILED, text))

    def _latest(self, version: Version) -> Version:
        """The version as the journal has it: a step may have written before it failed."""
        written = [one for one in self._journal.versions() if one.number == version.number]
        return written[0] if written else version


def _sentence(text: str) -> str:
    return text if text.endswith((".", "\n")) else f"{text}."
