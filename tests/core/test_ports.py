"""Ports that are chosen before they are bound."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ops.stack import ports
from udfs.core.errors import StackError


@pytest.fixture(autouse=True)
def few_ports(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(ports, "_PORTS", range(20011, 20014))
    monkeypatch.setattr(ports, "_PLACE", tmp_path)


def test_a_port_is_given_once_until_it_has_surely_been_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = [ports.free_ports(1)[0] for _ in range(3)]
    assert sorted(given) == [20011, 20012, 20013]
    with pytest.raises(StackError, match="Found 0 free ports of 1"):
        ports.free_ports(1)
    monkeypatch.setattr(ports, "_HELD_S", -1.0)
    assert ports.free_ports(1)[0] in given


def test_what_another_process_was_given_is_not_given_again(tmp_path: Path) -> None:
    program = f"""
from pathlib import Path
from ops.stack import ports
ports._PORTS, ports._PLACE = range(20011, 20013), Path({str(tmp_path)!r})
print(ports.free_ports(2), flush=True)
input()
"""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert sorted(eval(other.stdout.readline())) == [20011, 20012]  # noqa: S307  (our own line)
        assert ports.free_ports(1) == [20013]
        other.communicate("\n")
    # With the process its promises are gone.
    assert sorted(ports.free_ports(2)) == [20011, 20012]


def test_a_port_on_which_somebody_listens_is_not_free() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 20012))
        assert sorted(ports.free_ports(2)) == [20011, 20013]
