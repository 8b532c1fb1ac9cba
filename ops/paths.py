"""Where things stand in a checkout, once.

Standard library only: `make setup` imports this before any package is installed.
"""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BUILD = ROOT / "build"
VENV = ROOT / ".venv"

PYPROJECT = ROOT / "pyproject.toml"
LOCK = ROOT / "requirements.lock"
POM = ROOT / "pom.xml"
FLINK_CONF = ROOT / "flink-conf"
SQL = ROOT / "sql"

CONNECTOR_JARS = BUILD / "jars" / "connector"
GATEWAY_JARS = BUILD / "jars" / "gateway"
BROKER_JARS = BUILD / "jars" / "broker"
OPERATOR_JARS = BUILD / "jars" / "operator"
FLINK_HOME = BUILD / "flink-home"
UDFS_ZIP = BUILD / "tablegate-udfs.zip"
STAMPS = BUILD / "stamps"
# For the tests of monitoring/ only.
PROMETHEUS = BUILD / "prometheus"
MONITORING = ROOT / "monitoring"
# Another folder lets two stacks run side by side; the tests use it.
STACK = Path(os.environ.get("TABLEGATE_STACK", BUILD / "stack"))

VENV_PYTHON = VENV / "bin" / "python"
