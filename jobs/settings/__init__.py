"""What the join job is told: one TOML file, ``--set`` overrides, secrets from the environment.

``load`` reads and checks; ``Settings`` are frozen values; ``Settings.describe()`` prints them with
secrets masked. ``docs/configuration.md`` explains each setting.
"""

from jobs.settings.merge_path import load_merge
from jobs.settings.model import (
    GateSettings,
    JobSettings,
    KafkaSettings,
    KeySettings,
    MissSettings,
    OutputSettings,
    Settings,
    StreamSettings,
    TableKeySettings,
    TableSettings,
    TombstoneKeySettings,
    key_names,
)
from jobs.settings.problems import ConfigErrors
from jobs.settings.secrets import ClientProperties, TextTable
from jobs.settings.source import from_mapping, load
from jobs.settings.topic_rules import TOPIC_KEYS, topics

__all__ = [
    "TOPIC_KEYS",
    "ClientProperties",
    "ConfigErrors",
    "GateSettings",
    "JobSettings",
    "KafkaSettings",
    "KeySettings",
    "MissSettings",
    "OutputSettings",
    "Settings",
    "StreamSettings",
    "TableKeySettings",
    "TableSettings",
    "TextTable",
    "TombstoneKeySettings",
    "from_mapping",
    "key_names",
    "load",
    "load_merge",
    "topics",
]
