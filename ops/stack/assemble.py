"""A Flink home of the project's own, made of the installed wheel, and configuration for it.

The wheel holds a whole Flink, but not in the shape that a cluster with Python threads needs:
`flink-python` stands in `opt/`, the Kafka connector is missing, `conf/` lacks the log settings.
The installed package stays as pip left it; `build/flink-home` links into it and adds the rest::

    bin/      copied: the scripts find their home from the place where they really are
    lib/      links to the wheel's jars, plus the Kafka connector and flink-python: loaded per job,
              from opt/, it breaks the second job in a TaskManager
    opt/      links to the SQL client and the SQL gateway, which the wheel lacks, and a flink-python
              jar with nothing in it (see `_write_empty_jar`)
    plugins/  links to the wheel's
    conf/     written from flink-conf/local
"""

import os
import shutil
import sysconfig
import zipfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

import yaml

from ops.paths import CONNECTOR_JARS, FLINK_CONF, FLINK_HOME, GATEWAY_JARS, VENV_PYTHON
from udfs.core.errors import StackError

SETUP_REMEDY = "Run `make setup`."


def wheel_home() -> Path:
    """The Flink inside the installed apache-flink wheel.

    Raises:
        StackError: apache-flink is not installed in this environment.
    """
    # find_spec, not import: importing pyflink takes a second and is not needed for its folder.
    spec = find_spec("pyflink")
    if spec is None or not spec.submodule_search_locations:
        raise StackError("apache-flink is not installed in this Python.", SETUP_REMEDY)
    return Path(next(iter(spec.submodule_search_locations)))


def python_settings() -> dict[str, object]:
    """The Python paths that Flink's configuration needs, for this checkout's environment."""
    return {
        "python.executable": str(VENV_PYTHON),
        "python.client.executable": str(VENV_PYTHON),
        # Thread mode looks for pemja here and not in python.executable's environment.
        "python.pythonpath": sysconfig.get_path("purelib"),
    }


def write_conf(source: Path, target: Path, settings: Mapping[str, object]) -> None:
    """Write a configuration directory: `source` with `settings` laid over its config.yaml.

    Args:
        source: a directory like flink-conf/local, with flat keys in its config.yaml.
        target: the directory to write; made if missing.
        settings: flat Flink option names to values; they win over the source's.
    """
    merged: dict[str, object] = yaml.safe_load((source / "config.yaml").read_text())
    merged.update(settings)
    target.mkdir(parents=True, exist_ok=True)
    head = f"# Written from {source}; the reasons stand there, and changes belong there.\n"
    body = yaml.safe_dump(merged, default_flow_style=False, width=10_000)
    (target / "config.yaml").write_text(head + body)
    for path in source.glob("log4j*.properties"):
        shutil.copyfile(path, target / path.name)


def _write_empty_jar(path: Path) -> None:
    # `flink run -py` wants exactly one flink-python*.jar in opt/ and sends it along with every job:
    # 40 MB to each TaskManager, of classes that it has in lib/ already. An empty jar satisfies it.
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\r\n\r\n")


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise StackError(
            f"Expected exactly one {pattern} in {folder}, got {[path.name for path in found]}.",
            SETUP_REMEDY,
        )
    return found[0]


def assemble_home(
    home: Path = FLINK_HOME,
    *,
    wheel: Path | None = None,
    connector_jars: Path = CONNECTOR_JARS,
    gateway_jars: Path = GATEWAY_JARS,
    conf: Path = FLINK_CONF / "local",
) -> None:
    """Make the Flink home, replacing the one that stands there.

    Raises:
        StackError: the wheel, the connector or the gateway is missing, or there is more than one
            of them.
    """
    wheel = wheel or wheel_home()
    fresh = home.with_name(f"{home.name}.{os.getpid()}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    for folder in ("lib", "opt", "plugins", "log"):
        (fresh / folder).mkdir(parents=True)

    shutil.copytree(wheel / "bin", fresh / "bin")
    for script in (fresh / "bin").iterdir():
        script.chmod(0o755)

    python_jar = _only(wheel / "opt", "flink-python-*.jar")
    connector = _only(connector_jars, "flink-sql-connector-kafka-*.jar")
    for jar in (*sorted((wheel / "lib").glob("*.jar")), python_jar, connector):
        (fresh / "lib" / jar.name).symlink_to(jar)
    # Of one version: the client starts the gateway inside itself.
    gateway = _only(gateway_jars, "flink-sql-gateway-*.jar")
    for jar in (*sorted((wheel / "opt").glob("flink-sql-client-*.jar")), gateway):
        (fresh / "opt" / jar.name).symlink_to(jar)
    for plugin in sorted(path for path in (wheel / "plugins").iterdir() if path.is_dir()):
        (fresh / "plugins" / plugin.name).symlink_to(plugin)
    _write_empty_jar(fresh / "opt" / python_jar.name)
    write_conf(conf, fresh / "conf", python_settings())

    # Swapped in whole: a cluster that starts meanwhile sees the old home or the new one.
    old = home.with_name(f"{home.name}.{os.getpid()}.old")
    if home.exists():
        home.rename(old)
    fresh.rename(home)
    shutil.rmtree(old, ignore_errors=True)


if __name__ == "__main__":
    assemble_home()
