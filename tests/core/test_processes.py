"""Only processes that we started are ever stopped, and all of them."""

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from ops.stack.ports import free_ports
from ops.stack.processes import ProcessRecord, ProcessSet, find, ours, wait_until
from udfs.core.errors import StackError

SLEEP = [sys.executable, "-c", "import signal; signal.pause()"]


def test_a_stranger_with_our_pid_is_not_stopped(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as stranger:
        started = psutil.Process(stranger.pid).create_time()
        tmp_path.joinpath("processes.json").write_text(
            json.dumps([{"name": "broker", "pid": stranger.pid, "started": started - 60}])
        )
        stale = ProcessSet(tmp_path)
        assert not stale.alive("broker")
        stale.stop()
        assert stranger.poll() is None
        assert not (tmp_path / "processes.json").exists()
        assert find(ProcessRecord("stranger", stranger.pid, started))
        stranger.kill()


def test_a_state_file_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    tmp_path.joinpath("processes.json").write_text('[{"pid": 1}]')
    with pytest.raises(StackError, match="not a state file of ours"):
        ProcessSet(tmp_path).stop()


@pytest.mark.parametrize("replaced", [False, True])
def test_children_that_a_killed_process_left_are_stopped_with_it(
    tmp_path: Path, *, replaced: bool
) -> None:
    processes = ProcessSet(tmp_path)
    script = f"import subprocess; subprocess.run({SLEEP!r})"
    record = processes.spawn("parent", [sys.executable, "-c", script], log=tmp_path / "log", env={})
    while not (children := psutil.Process(record.pid).children()):
        assert processes.alive("parent")
    processes.kill("parent")
    assert all(child.is_running() for child in children)
    if replaced:
        processes.spawn("parent", SLEEP, log=tmp_path / "log", env={})
    processes.stop()
    _, alive = psutil.wait_procs(children, timeout=5)
    assert alive == []
    assert ours(tmp_path) == []


def test_a_process_that_died_by_itself_and_was_replaced_is_no_zombie(tmp_path: Path) -> None:
    processes = ProcessSet(tmp_path)
    dead = processes.spawn("one", [sys.executable, "-c", ""], log=tmp_path / "log", env={})
    while processes.alive("one"):
        pass
    assert psutil.Process(dead.pid).status() == psutil.STATUS_ZOMBIE
    processes.spawn("one", SLEEP, log=tmp_path / "log", env={})
    processes.stop()
    assert not psutil.pid_exists(dead.pid)


def test_a_stopped_process_is_forgotten_and_its_name_free_again(tmp_path: Path) -> None:
    processes = ProcessSet(tmp_path)
    first = processes.spawn("sleeper", SLEEP, log=tmp_path / "log", env={})
    with pytest.raises(StackError, match="running already"):
        processes.spawn("sleeper", SLEEP, log=tmp_path / "log", env={})
    # As another command would: it did not start it and cannot wait for it as a child.
    ProcessSet(tmp_path).stop(deadline_s=5)
    assert not processes.alive("sleeper")
    assert processes.records() == {}
    second = processes.spawn("sleeper", SLEEP, log=tmp_path / "log", env={})
    assert second.pid != first.pid
    processes.stop()


def test_a_process_that_ignores_sigterm_is_killed_at_the_deadline(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    stubborn = (
        "import signal, pathlib, sys; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "pathlib.Path(sys.argv[1]).touch()\nwhile True: signal.pause()"
    )
    processes = ProcessSet(tmp_path)
    command = [sys.executable, "-c", stubborn, str(ready)]
    processes.spawn("stubborn", command, log=tmp_path / "log", env={})
    wait_until(ready.exists, deadline_s=10, what="the process", give_up=lambda: None)
    processes.stop(deadline_s=0.2)
    assert ours(tmp_path) == []


def test_a_program_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="cannot start /no/such/java"):
        ProcessSet(tmp_path).spawn("x", ["/no/such/java"], log=tmp_path / "log", env={})


def test_free_ports_are_distinct_and_free() -> None:
    assert len(set(free_ports(5))) == 5


def test_waiting_ends_with_the_reason_or_with_the_deadline() -> None:
    with pytest.raises(StackError, match="it died"):
        wait_until(lambda: False, deadline_s=60, what="x", give_up=lambda: "it died")
    with pytest.raises(StackError, match=r"not after 0\.1 s"):
        wait_until(lambda: False, deadline_s=0.1, what="x", give_up=lambda: None)
