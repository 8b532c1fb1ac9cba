"""What a deploy ends with when it does not end well, and the exit codes that scripts go by."""

from __future__ import annotations

from enum import IntEnum

from udfs.core.errors import StackError


class Exit(IntEnum):
    """Exit codes of deploy, upgrade, rollback and rescale."""

    READY = 0
    # Something failed before the running job was touched, or outside of what we can judge.
    ERROR = 1
    # A check said no: nothing was touched.
    REFUSED = 2
    # The new version did not become ready, and the version before runs again.
    ROLLED_BACK = 3
    # The new version runs, but did not become ready in time, and there is none to go back to.
    NOT_READY = 4
    # Neither version runs. Somebody has to act.
    DOWN = 5


class DeployError(StackError):
    """A deploy that did not end with a ready job: what happened, what to do, and the exit code."""

    def __init__(self, what: str, remedy: str, code: Exit = Exit.ERROR) -> None:
        super().__init__(what, remedy)
        self.code = code
