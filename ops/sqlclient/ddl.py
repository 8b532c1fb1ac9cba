"""The DDL for other SQL clients of Flink, and the module with the gate that it names."""

import hashlib
import os
import pprint
from dataclasses import asdict, dataclass
from pathlib import Path

from jobs.clients import librdkafka_config
from jobs.settings import Settings
from jobs.sql.client_names import gate_names, output_names, printed
from ops.package import package
from ops.paths import ROOT, UDFS_ZIP
from udfs.ddl_gate import DdlGateRules
from udfs.targets import TargetResolver

OUTPUTS = ROOT / "sql" / "client"
GATED = ROOT / "sql" / "gated"


@dataclass(frozen=True)
class Ddl:
    """Statements as text, and the modules that they name: file name to source."""

    text: str
    modules: dict[str, str]


def outputs_ddl(settings: Settings, *, with_secrets: bool = False) -> Ddl:
    """CREATE statements for the outputs. Raises SqlError, of a file that cannot be taken."""
    return Ddl(printed(OUTPUTS, output_names(settings, with_secrets=with_secrets)), {})


def gated_ddl(
    settings: Settings, rest_url: str, topic_id: str, folder: Path, *, with_secrets: bool = False
) -> Ddl:
    """The gated table and what it needs; its module is to stand in ``folder``.

    Args:
        settings: of the job whose table it is.
        rest_url: where the JobManager answers that will run the query.
        topic_id: of the table topic, now.
        folder: where the module will be written.
        with_secrets: whether the text holds what the clients log in with. The module does.

    Raises:
        ConfigError: such a table would not be exact with these settings.
        SqlError: a file cannot be taken.
    """
    rules = DdlGateRules(
        client=librdkafka_config(settings),
        topic=settings.table.topic,
        isolation_level=settings.table.isolation_level,
        rest_url=rest_url,
        topic_id=topic_id,
        transaction_wait_ms=settings.gate.stall_after_ms,
    )
    source = _MODULE.format(topic=rules.topic, rules=pprint.pformat(asdict(rules), width=96))
    # A name by its content: a gateway keeps modules that it imported once.
    module = f"tablegate_gate_{hashlib.sha256(source.encode()).hexdigest()[:12]}"
    file = (folder / f"{module}.py").resolve()
    names = gate_names(settings, module, f"{UDFS_ZIP},{file}", with_secrets=with_secrets)
    return Ddl(printed(GATED, names), {file.name: source})


def table_topic_id(settings: Settings) -> str:
    """The table topic's id now. Raises TargetError when the brokers do not tell it."""
    table = settings.table
    with TargetResolver(
        librdkafka_config(settings), table.topic, table.isolation_level
    ) as resolver:
        return resolver.topic().topic_id


def write(folder: Path, name: str, ddl: Ddl) -> Path:
    """Write the statements as ``name`` beside the modules, readable by the owner only.

    Returns:
        The path of the statements.
    """
    folder.mkdir(parents=True, exist_ok=True)
    if ddl.modules:
        package()
    for file, text in {**ddl.modules, name: ddl.text}.items():
        _write_private(folder / file, text)
    return folder / name


def _write_private(path: Path, text: str) -> None:
    # Made anew: a file that others may read would keep its mode.
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
        out.write(text)


_MODULE = '''"""The gate of topic {topic}, for CREATE FUNCTION. Written by `tablegate sql-ddl`.

Holds what the clients log in with: keep it from others.
"""

from udfs import ddl_gate

_RULES = ddl_gate.DdlGateRules(
    **{rules}
)

table_gate = ddl_gate.table_gate(_RULES)
event_moment = ddl_gate.event_moment()
'''
