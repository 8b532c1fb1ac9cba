"""`make setup`: the virtual environment, the JVM jars, the Flink home and the package for workers.

Each step has a stamp with the digest of its inputs and runs only when that differs, so a second
run does nothing. Standard library only, because it runs before anything is installed::

    python3.11 -m ops.setup
"""

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ops import prometheus
from ops.package import digest, package
from ops.paths import (
    BROKER_JARS,
    CONNECTOR_JARS,
    FLINK_CONF,
    FLINK_HOME,
    GATEWAY_JARS,
    LOCK,
    MONITORING,
    OPERATOR_JARS,
    POM,
    PROMETHEUS,
    PYPROJECT,
    ROOT,
    STAMPS,
    UDFS_ZIP,
    VENV,
    VENV_PYTHON,
)

_JARS = (CONNECTOR_JARS, GATEWAY_JARS, BROKER_JARS, OPERATOR_JARS)


@dataclass(frozen=True)
class Step:
    """One thing that `make setup` makes."""

    name: str
    inputs: tuple[Path, ...]
    outputs: tuple[Path, ...]
    run: Callable[[], None]
    # Names of the steps whose result this one is made of: it runs again when they did.
    after: tuple[str, ...] = ()


class SetupError(Exception):
    """A step's command failed. `udfs.core.errors` is not used here: nothing is installed yet."""


def _call(*command: str | Path) -> None:
    result = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if result.returncode:
        line = " ".join(str(part) for part in command)
        raise SetupError(f"`{line}` exited with {result.returncode}:\n{result.stdout}")


def _make_venv() -> None:
    # With the interpreter that runs this: the Makefile chose python3.11.
    _call(sys.executable, "-m", "venv", VENV)
    _call(VENV_PYTHON, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", LOCK)


def _install_project() -> None:
    # No build isolation: the backend is in the lock, an isolated build would fetch another one.
    _call(
        *(VENV_PYTHON, "-m", "pip", "install", "--quiet"),
        *("--no-deps", "--no-build-isolation", "--editable", ROOT),
    )


def _copy_jars() -> None:
    for folder in _JARS:
        # A jar of an older version beside the new one would win by chance.
        for jar in folder.glob("*.jar"):
            jar.unlink()
    _call("mvn", "-B", "-q", "-f", POM, "process-resources")


def _assemble_home() -> None:
    # In the environment's Python: it needs PyYAML and has to find the wheel.
    _call(VENV_PYTHON, "-m", "ops.stack.assemble")


def _fetch_prometheus() -> None:
    # Not an error: only the tests of monitoring/ need it, and these say why they are skipped.
    prometheus.fetch()


def steps() -> list[Step]:
    """The steps in the order in which they need each other."""
    local = sorted(path for path in (FLINK_CONF / "local").iterdir() if path.is_file())
    return [
        Step("venv", (LOCK,), (VENV_PYTHON,), _make_venv),
        Step("project", (PYPROJECT,), (VENV / "bin" / "tablegate",), _install_project, ("venv",)),
        Step("jars", (POM,), _JARS, _copy_jars),
        Step(
            "flink-home",
            (*local, ROOT / "ops" / "stack" / "assemble.py", ROOT / "ops" / "paths.py"),
            (FLINK_HOME / "bin" / "flink", FLINK_HOME / "conf" / "config.yaml"),
            _assemble_home,
            ("venv", "jars"),
        ),
        # Not in an image: that has no monitoring/ to test.
        *(
            [Step("prometheus", (Path(prometheus.__file__),), (PROMETHEUS,), _fetch_prometheus)]
            if MONITORING.exists()
            else []
        ),
    ]


@contextmanager
def _alone() -> Iterator[None]:
    # Two terminals may say `make setup` at once; pip and Maven do not expect that.
    STAMPS.mkdir(parents=True, exist_ok=True)
    with (STAMPS / "lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def setup(say: Callable[[str], object] = print) -> list[str]:
    """Run the steps whose inputs changed or whose outputs are gone.

    Returns:
        The names of what was made, in order; empty when everything was up to date.

    Raises:
        SetupError: a command failed. Its step has no stamp and runs again next time.
    """
    made: list[str] = []
    with _alone():
        digests: dict[str, str] = {}
        for step in steps():
            # The checkout's path is in scripts of .venv and in the Flink configuration: a moved
            # checkout is set up anew.
            salt = "\n".join((str(ROOT), *(digests[name] for name in step.after)))
            digests[step.name] = wanted = digest(step.inputs, salt=salt)
            stamp = STAMPS / step.name
            current = stamp.read_text() if stamp.exists() else ""
            if current == wanted and all(path.exists() for path in step.outputs):
                continue
            begin = time.monotonic()
            say(f"setup: {step.name} ...")
            stamp.unlink(missing_ok=True)
            step.run()
            stamp.write_text(wanted)
            say(f"setup: {step.name} done in {time.monotonic() - begin:.0f} s")
            made.append(step.name)
        if package():
            say(f"setup: wrote {UDFS_ZIP.relative_to(ROOT)}")
            made.append(UDFS_ZIP.name)
    return made


def main() -> int:
    """Entry point of `make setup`."""
    if sys.version_info[:2] != (3, 11):
        sys.stderr.write(
            f"setup: needs Python 3.11, got {sys.version.split()[0]}: the Flink wheel and pemja are"
            " built per Python version. Run `make setup PYTHON=/path/to/python3.11`.\n"
        )
        return 2
    # pip's own settings of a machine may point at mirrors or a user site; hashes keep the first
    # honest, this keeps the second out.
    os.environ["PIP_USER"] = "0"
    try:
        setup()
    except (SetupError, FileNotFoundError) as error:
        sys.stderr.write(f"setup: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
