"""Deploys step by step, with an engine that fails where the test says so."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ops.deploy.actions import Deployer
from ops.deploy.errors import DeployError, Exit
from ops.deploy.journal import Journal, Result, Version, current, target_of_rollback
from ops.deploy.port import Budget
from ops.deploy.savepoints import FileProblem, OperatorState, Savepoint
from tests.ops.fake_engine import DEAD, LATE, FakeEngine
from udfs.core.errors import StackError

CONFIG = """
[job]
name = "orders"
[kafka]
bootstrap_servers = "localhost:9092"
[stream]
topic = "orders"
key = {from = "value", path = "customer"}
[table]
topic = "customers"
fields = {tier = "tier"}
[output]
enriched = "e"
retry = "r"
dead = "d"
"""


class Rig:
    """A journal, a fake engine, and the actions on both."""

    def __init__(self, folder: Path) -> None:
        self.journal = Journal("orders", folder)
        self.engine = FakeEngine()
        self.deployer = Deployer(self.journal, self.engine, Budget(10, 60, 100))

    def version(self, code: str = "a", config: str = CONFIG) -> Version:
        number = self.journal.next_number()
        new = Version(number, "orders", "upgrade", 1, config, package="p.zip", code=code)
        self.journal.files(new).mkdir(parents=True)
        (self.journal.files(new) / "p.zip").write_bytes(b"zip")
        return new

    def deployed(self, code: str = "a") -> Version:
        return self.deployer.deploy(self.version(code))

    def upgraded(self) -> Version:
        old = self.deployed()
        return self.deployer.upgrade(self.version(), old)

    def current(self) -> Version:
        found = current(self.journal.versions())
        assert found is not None
        return found

    def results(self) -> dict[int, str]:
        return {version.number: str(version.result) for version in self.journal.versions()}

    def read(self, number: int) -> Version:
        return next(v for v in self.journal.versions() if v.number == number)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


# ---------------------------------------------------------------------------------------- deploy


def test_a_first_deploy_loads_the_table_without_the_stream_and_starts_from_that(rig: Rig) -> None:
    version = rig.deployed()
    assert rig.engine.steps == [
        "load 1 from nothing job.name=orders.table-load",
        "wait-load 1",
        "stop load-1",
        "read file:/savepoints/load-1",
        "submit 1 from file:/savepoints/load-1",
        "wait 1 at file:/savepoints/load-1",
    ]
    assert (version.result, version.job_id) == (Result.RUNNING, "job-1")
    assert rig.engine.running("orders") == ["job-1"]


def test_the_load_beside_an_exactly_once_job_has_transactional_ids_of_its_own(rig: Rig) -> None:
    config = CONFIG.replace(
        'name = "orders"',
        'name = "orders"\ndelivery = "exactly-once"\ntransactional_id_prefix = "tx"',
    )
    rig.deployer.deploy(rig.version(config=config))
    assert "job.transactional_id_prefix=tx.table-load" in rig.engine.steps[0]
    assert "job.transactional_id_prefix" not in rig.engine.steps[-2]


def test_a_load_that_fails_is_cancelled_and_written_down(rig: Rig) -> None:
    rig.engine.fails = {"stop"}
    with pytest.raises(StackError):
        rig.deployed()
    assert rig.engine.jobs == {}
    assert rig.results() == {1: "failed"}
    assert current(rig.journal.versions()) is None


def test_a_first_deploy_that_only_lags_is_left_running(rig: Rig) -> None:
    rig.engine.outcomes = {1: LATE}
    with pytest.raises(DeployError, match="is not ready") as caught:
        rig.deployed()
    assert caught.value.code is Exit.NOT_READY
    assert rig.engine.running("orders") == ["job-1"]
    assert rig.results() == {1: "not ready"}


# --------------------------------------------------------------------------------------- upgrade


def test_an_upgrade_starts_from_the_savepoint_that_stopped_the_old_one(rig: Rig) -> None:
    old = rig.deployed()
    new = rig.deployer.upgrade(rig.version(), old)
    assert rig.engine.steps[-4:] == [
        "stop job-1",
        "read file:/savepoints/job-1",
        "submit 2 from file:/savepoints/job-1",
        "wait 2 at file:/savepoints/job-1",
    ]
    assert rig.results() == {1: "replaced", 2: "running"}
    assert rig.read(1).stopped_with == new.started_from == "file:/savepoints/job-1"
    assert current(rig.journal.versions()) == new


def test_workers_are_restarted_only_when_their_code_changed(rig: Rig) -> None:
    old = rig.deployed("a")
    old = rig.deployer.upgrade(rig.version("a"), old)
    assert not [step for step in rig.engine.steps if step.startswith("restart")]
    rig.deployer.upgrade(rig.version("b"), old)
    assert [s for s in rig.engine.steps if s.startswith("restart")] == ["restart-workers a b"]


@pytest.mark.parametrize("outcome", [LATE, DEAD])
def test_a_version_that_does_not_become_ready_is_rolled_back(rig: Rig, outcome: object) -> None:
    old = rig.deployed("a")
    rig.engine.outcomes = {2: outcome}  # type: ignore[dict-item]
    with pytest.raises(DeployError, match="Rolled back") as caught:
        rig.deployer.upgrade(rig.version("b"), old)
    assert caught.value.code is Exit.ROLLED_BACK
    assert rig.engine.jobs == {"job-3": "orders"}
    assert rig.results() == {1: "replaced", 2: "failed", 3: "running"}
    again = rig.read(3)
    assert (again.copy_of, again.started_from) == (1, "file:/savepoints/job-1")
    assert (rig.journal.files(again) / "p.zip").read_bytes() == b"zip"
    assert "restart-workers b a" in rig.engine.steps
    assert rig.engine.steps.index("cancel job-2") < rig.engine.steps.index("restart-workers b a")


def test_a_version_that_cannot_be_submitted_is_rolled_back(rig: Rig) -> None:
    old = rig.deployed()
    rig.engine.fails = {"submit 2 from file:/savepoints/job-1"}
    with pytest.raises(DeployError) as caught:
        rig.deployer.upgrade(rig.version(), old)
    assert caught.value.code is Exit.ROLLED_BACK
    assert rig.engine.jobs == {"job-3": "orders"}
    assert rig.results() == {1: "replaced", 2: "failed", 3: "running"}


def test_a_savepoint_that_the_new_version_cannot_take_goes_back_to_the_old_one(rig: Rig) -> None:
    old = rig.deployed()
    stray = OperatorState("0" * 32, "old-dedup", "dedup", 1, 128, stateful=True)
    rig.engine.savepoint = Savepoint("file:/savepoints/job-1", 0, (stray,))
    with pytest.raises(DeployError, match="old-dedup") as caught:
        rig.deployer.upgrade(rig.version(), old)
    assert caught.value.code is Exit.ROLLED_BACK
    assert not [step for step in rig.engine.steps if step.startswith("submit 2")]
    assert rig.engine.jobs == {"job-3": "orders"}


def test_a_failed_savepoint_leaves_the_old_version_running(rig: Rig) -> None:
    old = rig.deployed()
    rig.engine.fails = {"stop"}
    with pytest.raises(StackError, match="stop job-1"):
        rig.deployer.upgrade(rig.version(), old)
    assert rig.engine.jobs == {"job-1": "orders"}
    assert rig.results() == {1: "running", 2: "failed"}
    found = rig.current()
    assert found.number == 1


def test_when_neither_version_starts_the_savepoint_is_named(rig: Rig) -> None:
    old = rig.deployed()
    rig.engine.outcomes = {2: DEAD, 3: DEAD}
    with pytest.raises(DeployError, match="file:/savepoints/job-1") as caught:
        rig.deployer.upgrade(rig.version(), old)
    assert caught.value.code is Exit.DOWN
    assert rig.engine.jobs == {}
    # The old one is still the current one, so that an upgrade or a rollback starts from its state.
    found = rig.current()
    assert (found.number, found.stopped_with) == (1, "file:/savepoints/job-1")


def test_a_job_that_the_journal_does_not_know_is_not_touched(rig: Rig) -> None:
    old = rig.deployed()
    rig.engine.jobs = {"by-hand": "orders"}
    with pytest.raises(DeployError, match="by-hand") as caught:
        rig.deployer.upgrade(rig.version(), old)
    assert caught.value.code is Exit.REFUSED
    assert rig.engine.jobs == {"by-hand": "orders"}


def test_an_upgrade_of_a_stopped_version_goes_on_from_its_savepoint(rig: Rig) -> None:
    old = rig.deployed()
    rig.engine.jobs.clear()
    old = rig.journal.write(old.stopped("file:/savepoints/by-hand", 5))
    new = rig.deployer.upgrade(rig.version(), old)
    assert new.started_from == "file:/savepoints/by-hand"


def test_what_an_interrupted_upgrade_leaves_is_the_truth(rig: Rig) -> None:
    old = rig.deployed()

    def interrupt(*_: object, **__: object) -> str:
        raise KeyboardInterrupt

    rig.engine.submit = interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        rig.deployer.upgrade(rig.version(), old)
    rig.deployer.recover()
    found = rig.current()
    assert (found.number, found.stopped_with) == (1, "file:/savepoints/job-1")


def test_secrets_are_masked_in_reasons(rig: Rig) -> None:
    old = rig.deployed()
    rig.engine.outcomes = {2: replace(DEAD, reason="login with hunter2 failed")}
    with pytest.raises(DeployError) as caught:
        rig.deployer.upgrade(rig.version(), old)
    written = "".join(path.read_text() for path in rig.journal.folder.glob("*.json"))
    assert "hunter2" not in written + str(caught.value)
    assert "login with *** failed" in rig.read(2).reason


def test_secrets_are_masked_in_what_a_failed_step_leaves(rig: Rig) -> None:
    old = rig.deployed()

    def leak(job_id: str) -> str:
        raise StackError("no savepoint for hunter2.", "Look.")

    rig.engine.stop = leak  # type: ignore[method-assign]
    with pytest.raises(StackError):
        rig.deployer.upgrade(rig.version(), old)
    assert "no savepoint for ***" in rig.read(2).reason


# ------------------------------------------------------------------------------- interruptions


def _interrupt(*_: object, **__: object) -> str:
    raise KeyboardInterrupt


def test_while_a_version_cannot_be_cancelled_no_other_is_started(rig: Rig) -> None:
    old = rig.deployed()
    rig.engine.outcomes = {2: LATE}
    rig.engine.fails = {"cancel job-2"}
    with pytest.raises(DeployError, match=r"could not be cancelled.*job-2 may run") as caught:
        rig.deployer.upgrade(rig.version(), old)
    assert caught.value.code is Exit.NOT_READY
    assert "from file:/savepoints/job-1" in str(caught.value)
    assert rig.engine.jobs == {"job-2": "orders"}
    assert rig.results() == {1: "replaced", 2: "not ready"}
    # And the way back is the one that was meant.
    rig.engine.fails = set()
    target = target_of_rollback(rig.journal.versions(), None)
    assert (target.number, target.stopped_with) == (1, "file:/savepoints/job-1")


def test_a_job_that_came_of_a_submission_which_failed_too_late_is_cancelled(rig: Rig) -> None:
    old = rig.deployed()
    submit = rig.engine.submit

    def late(version: Version, *arguments: object, **options: object) -> str:
        if version.number != 2:
            return submit(version, *arguments, **options)  # type: ignore[arg-type]
        rig.engine.jobs["late"] = "orders"
        raise StackError("`flink run` was not done after 300 s.", "It may have taken effect.")

    rig.engine.submit = late  # type: ignore[method-assign]
    with pytest.raises(DeployError) as caught:
        rig.deployer.upgrade(rig.version(), old)
    assert caught.value.code is Exit.ROLLED_BACK
    assert rig.engine.jobs == {"job-3": "orders"}
    # And when nobody can say whether there is one, none is started beside it.
    rig.engine.fails = {"running", "submit 4 from file:/savepoints/job-3"}
    rig.engine.submit = submit  # type: ignore[method-assign]
    with pytest.raises(DeployError, match="may run") as caught:
        rig.deployer.upgrade(rig.version(), rig.read(3))
    assert caught.value.code is Exit.NOT_READY
    assert rig.engine.jobs == {}


def test_while_the_old_version_cannot_be_cancelled_a_rollback_starts_nothing(rig: Rig) -> None:
    newer = rig.upgraded()
    rig.engine.fails = {"stop", "cancel"}
    with pytest.raises(StackError, match="cancel job-2"):
        rig.deployer.rollback(rig.deployer.copy(rig.read(1), "rollback"), newer, "file:/sp")
    assert rig.engine.jobs == {"job-2": "orders"}
    assert rig.results() == {1: "replaced", 2: "running", 3: "failed"}


def test_an_upgrade_that_was_interrupted_while_its_job_came_up_is_the_current_one(
    rig: Rig,
) -> None:
    old = rig.upgraded()
    rig.engine.wait_ready = _interrupt  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        rig.deployer.upgrade(rig.version(), old)
    assert rig.results() == {1: "replaced", 2: "running", 3: "starting"}
    rig.deployer.recover()
    assert rig.results() == {1: "replaced", 2: "replaced", 3: "not ready"}
    target = target_of_rollback(rig.journal.versions(), None)
    assert (target.number, target.stopped_with) == (2, "file:/savepoints/job-2")


def test_a_reload_that_was_interrupted_while_its_job_came_up_still_brings_along_what_waited(
    rig: Rig,
) -> None:
    old = rig.deployed()
    rig.engine.wait_ready = _interrupt  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        rig.deployer.reload(replace(rig.version(), action="reload"), old)
    assert not [step for step in rig.engine.steps if step.startswith("resend")]
    rig.deployer.recover()
    assert rig.engine.steps[-1] == "resend file:/savepoints/job-1"
    assert rig.results() == {1: "replaced", 2: "not ready"}
    rig.deployer.recover()
    assert len([step for step in rig.engine.steps if step.startswith("resend")]) == 1


def test_a_job_that_flink_run_submitted_after_its_command_was_killed_is_taken_for_its_own(
    rig: Rig,
) -> None:
    old = rig.deployed()
    rig.engine.submit = _interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        rig.deployer.upgrade(rig.version(), old)
    rig.engine.jobs["late"] = "orders"
    rig.deployer.recover()
    found = rig.current()
    assert (found.number, found.job_id, found.result) == (2, "late", Result.NOT_READY)


def test_a_job_of_somebody_else_is_nobodys_when_nothing_was_being_submitted(rig: Rig) -> None:
    old = rig.deployed()
    rig.engine.stop = _interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        rig.deployer.upgrade(rig.version(), old)
    rig.engine.jobs = {"by-hand": "orders"}
    rig.deployer.recover()
    assert rig.results() == {1: "running", 2: "failed"}


def test_a_rollback_that_was_interrupted_after_the_stop_leaves_the_version_that_it_stopped(
    rig: Rig,
) -> None:
    newer = rig.upgraded()
    rig.engine.submit = _interrupt  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        rig.deployer.rollback(rig.deployer.copy(rig.read(1), "rollback"), newer, "file:/sp")
    rig.deployer.recover()
    found = rig.current()
    assert (found.number, found.stopped_with) == (2, "file:/savepoints/job-2")
    assert rig.results() == {1: "replaced", 2: "running", 3: "failed"}


def test_a_rollback_that_fails_names_its_savepoint_and_can_be_tried_again(rig: Rig) -> None:
    newer = rig.upgraded()
    rig.engine.outcomes = {3: DEAD}
    with pytest.raises(DeployError, match="file:/savepoints/job-1") as caught:
        rig.deployer.rollback(
            rig.deployer.copy(rig.read(1), "rollback"), newer, rig.read(1).stopped_with
        )
    assert caught.value.code is Exit.DOWN
    assert target_of_rollback(rig.journal.versions(), None).number == 1
    found = rig.current()
    assert (found.number, found.stopped_with) == (2, "file:/savepoints/job-2")


def test_only_one_version_is_in_charge(rig: Rig) -> None:
    newer = rig.upgraded()
    # As an older Tablegate left it.
    rig.journal.write(rig.read(1).ended(Result.RUNNING))
    rig.deployer.upgrade(rig.version(), newer)
    assert rig.results() == {1: "replaced", 2: "replaced", 3: "running"}


# ---------------------------------------------------------------------------------------- reload


def test_a_reload_stops_the_old_version_only_when_the_table_is_loaded(rig: Rig) -> None:
    old = rig.deployed()
    rig.engine.steps.clear()
    new = rig.deployer.reload(rig.version(), old)
    assert rig.engine.steps == [
        "load 2 from nothing job.name=orders.table-load",
        "wait-load 2",
        "stop load-2",
        "read file:/savepoints/load-2",
        "stop job-1",
        "read file:/savepoints/job-1",
        "hand-over file:/savepoints/job-1",
        "submit 2 from file:/savepoints/load-2 stream.start=committed",
        "wait 2 at file:/savepoints/job-1",
        # Not sooner: until then the old version might have come back, with them in its state.
        "resend file:/savepoints/job-1",
    ]
    assert (new.started_from, rig.results()) == (
        "file:/savepoints/load-2",
        {1: "replaced", 2: "running"},
    )


@pytest.mark.parametrize("held", [["3 are being released"], ["", "it is restarting"]])
def test_a_reload_is_refused_while_the_old_version_holds_events(rig: Rig, held: list[str]) -> None:
    old = rig.deployed()
    rig.engine.held = held
    with pytest.raises(DeployError, match="may hold events") as caught:
        rig.deployer.reload(rig.version(), old)
    assert caught.value.code is Exit.REFUSED
    assert rig.engine.jobs == {"job-1": "orders"}
    assert rig.results() == {1: "running", 2: "failed"}


@pytest.mark.parametrize("step", ["hand-over", "submit 2"])
def test_a_reload_that_fails_late_goes_back_to_the_old_versions_own_savepoint(
    rig: Rig, step: str
) -> None:
    old = rig.deployed()
    rig.engine.fails = {
        step
        if step == "hand-over"
        else "submit 2 from file:/savepoints/load-2 stream.start=committed"
    }
    with pytest.raises(DeployError) as caught:
        rig.deployer.reload(rig.version(), old)
    assert caught.value.code is Exit.ROLLED_BACK
    assert rig.read(3).started_from == "file:/savepoints/job-1"
    assert not [made for made in rig.engine.steps if made.startswith("resend")]


def test_a_restart_between_the_look_and_the_stop_goes_back(rig: Rig) -> None:
    old = rig.deployed()
    rig.engine.attempts = [0, 1]
    with pytest.raises(DeployError, match="restarted while") as caught:
        rig.deployer.reload(rig.version(), old)
    assert caught.value.code is Exit.ROLLED_BACK
    assert not [step for step in rig.engine.steps if step.startswith("submit 2")]


# -------------------------------------------------------------------------------------- rollback


def test_a_rollback_starts_the_version_before_from_its_own_savepoint(rig: Rig) -> None:
    old = rig.deployed()
    newer = rig.deployer.upgrade(rig.version(), old)
    target = target_of_rollback(rig.journal.versions(), None)
    new = rig.deployer.rollback(rig.deployer.copy(target, "rollback"), newer, target.stopped_with)
    assert (new.copy_of, new.started_from) == (1, "file:/savepoints/job-1")
    assert rig.results() == {1: "replaced", 2: "replaced", 3: "running"}
    assert rig.read(2).stopped_with == "file:/savepoints/job-2"
    with pytest.raises(DeployError, match="no earlier version"):
        target_of_rollback(rig.journal.versions(), None)


def test_a_rollback_of_a_version_that_gives_no_savepoint_cancels_it(rig: Rig) -> None:
    old = rig.deployed()
    newer = rig.deployer.upgrade(rig.version(), old)
    rig.engine.fails = {"stop"}
    new = rig.deployer.rollback(
        rig.deployer.copy(rig.read(1), "rollback"), newer, rig.read(1).stopped_with
    )
    assert "cancel job-2" in rig.engine.steps
    assert rig.engine.jobs == {new.job_id: "orders"}


def test_a_rollback_leads_past_the_version_that_was_just_left(rig: Rig) -> None:
    first = rig.deployed()
    second = rig.deployer.upgrade(rig.version(), first)
    third = rig.deployer.upgrade(rig.version(), second)
    back = rig.deployer.rollback(
        rig.deployer.copy(rig.read(2), "rollback"), third, rig.read(2).stopped_with
    )
    assert (back.number, back.copy_of) == (4, 2)
    assert target_of_rollback(rig.journal.versions(), None).number == 1
    assert target_of_rollback(rig.journal.versions(), 3).number == 3
    with pytest.raises(DeployError, match="no version 9"):
        target_of_rollback(rig.journal.versions(), 9)


def test_a_damaged_savepoint_is_found_before_the_new_version_is_submitted(rig: Rig) -> None:
    old = rig.deployed()
    rig.engine.savepoint = Savepoint(
        "file:/sp", 0, (), files=2, problems=(FileProblem("file:/sp/x", "gone"),)
    )
    with pytest.raises(DeployError, match="file:/sp/x: gone"):
        rig.deployer.upgrade(rig.version(), old)
    assert not [step for step in rig.engine.steps if step.startswith("submit 2")]
