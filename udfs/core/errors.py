"""Every error that Tablegate raises on purpose, written for the person on call.

::

    TablegateError
    ├── ConfigError      the configuration is wrong or half-set; nothing was submitted
    ├── PreflightError   the cluster does not look as the configuration says; nothing was submitted
    ├── StackError       the embedded broker or cluster could not be started or stopped
    ├── TargetError      the gate cannot name, trust or reach its targets; the attempt fails
    │   └── NoAnswerError  the brokers did not answer; asking again later may help
    ├── StaleCodeError   the worker has other code in memory than the job's; the attempt fails
    ├── WorkerError      the worker cannot do what a setting asks for; the attempt fails
    └── TableTooLargeError  the table does not fit into memory; the attempt fails

Anything else that reaches a user is a fault of ours.
"""

from __future__ import annotations


class TablegateError(Exception):
    """Base of all of them: ``except TablegateError`` catches what Tablegate raises on purpose."""


class ConfigError(TablegateError):
    """A setting is wrong, unknown or half-set.

    ``value`` must already be masked when the key is secret: it is printed as it stands.
    """

    def __init__(self, key: str, value: object, remedy: str) -> None:
        self.key = key
        self.value = value
        self.remedy = remedy
        super().__init__(f"{key} = {value!r}: {remedy}")

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, object, str]]:
        # Exceptions cross process borders (pytest-xdist, Flink's Python worker) by pickle, which
        # would otherwise call __init__ with the one formatted string.
        return (type(self), (self.key, self.value, self.remedy))


class _WithRemedy(TablegateError):
    """What is wrong, and what to do about it."""

    def __init__(self, what: str, remedy: str) -> None:
        self.what = what
        self.remedy = remedy
        # Behind a stack trace the remedy begins a line of its own.
        text = what.rstrip()
        super().__init__(f"{text}\n{remedy}" if "\n" in text else f"{text} {remedy}")

    def __reduce__(self) -> tuple[type[_WithRemedy], tuple[str, str]]:
        return (type(self), (self.what, self.remedy))


class PreflightError(_WithRemedy):
    """A fact read from the brokers contradicts the configuration (a missing topic, say)."""


class StackError(_WithRemedy):
    """The embedded broker or Flink cluster did not start, stop or answer in time."""


class TargetError(_WithRemedy):
    """The gate's targets cannot be known or reached: the topic is gone, or its end moved back."""


class NoAnswerError(TargetError):
    """The brokers could not be asked. An attempt that has begun asks again instead of failing."""


class StaleCodeError(_WithRemedy):
    """The worker process imported another version of the code, for an earlier job."""


class WorkerError(_WithRemedy):
    """A setting asks for what this worker's Python or Flink cannot do."""


class TableTooLargeError(_WithRemedy):
    """A table that is kept in memory does not fit there."""
