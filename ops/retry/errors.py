"""What a `tablegate retry` command ends with when it does not do what it was asked."""

from __future__ import annotations

from enum import IntEnum

from udfs.core.errors import StackError


class Exit(IntEnum):
    """Exit codes of `tablegate retry`."""

    DONE = 0
    # The brokers failed, or somebody else's replay took over: the message says what was sent.
    ERROR = 1
    # A filter, a topic or the lack of a terminal said no: nothing was sent.
    REFUSED = 2
    # As a shell reports a process that Ctrl-C ended.
    INTERRUPTED = 130


class RetryError(StackError):
    """A list or a replay that did not come to its end: what happened, what to do, the exit code."""

    def __init__(self, what: str, remedy: str, code: Exit = Exit.REFUSED) -> None:
        super().__init__(what, remedy)
        self.code = code
