"""A program on a terminal of its own, as a person sits before it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from typing import Self

_ORDERS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")


class Program:
    """A program that runs on a terminal of ``rows`` times ``columns``.

    Use it as a context manager: it is killed behind the block if it still runs.
    """

    def __init__(
        self,
        command: Sequence[str],
        env: Mapping[str, str],
        cwd: str,
        rows: int = 40,
        columns: int = 160,
    ) -> None:
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self._process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            # A terminal of its own is what makes ^C a signal.
            preexec_fn=_take_terminal,  # noqa: PLW1509  (no threads of ours hold locks here)
            start_new_session=True,
            env={**env, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"},
            cwd=cwd,
        )
        os.close(theirs)
        self.seen = ""
        self._at = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def type(self, text: str) -> None:
        """Type it."""
        os.write(self._ours, text.encode())

    def expect(self, pattern: str, deadline_s: float = 90) -> re.Match[str]:
        """Wait until the screen has shown it, behind what was expected before."""
        end = time.monotonic() + deadline_s
        while True:
            found = re.compile(pattern, re.DOTALL).search(self.seen, self._at)
            if found:
                self._at = found.end()
                return found
            assert time.monotonic() < end, f"not shown: {pattern}\n{self.seen[self._at :]}"
            self._read()

    def wait(self, deadline_s: float = 30) -> int:
        """Its exit code."""
        end = time.monotonic() + deadline_s
        while self._process.poll() is None:
            assert time.monotonic() < end, f"did not end:\n{self.seen[self._at :]}"
            self._read()
        return int(self._process.returncode)

    def _read(self) -> None:
        if select.select([self._ours], [], [], 0.1)[0]:
            try:
                self.seen += _ORDERS.sub("", os.read(self._ours, 65536).decode(errors="replace"))
            except OSError:
                # Linux says so when the program has closed its side.
                time.sleep(0.05)


def _take_terminal() -> None:
    # Whoever started the tests in the background had it ignored.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
