"""The schema of the operator's FlinkDeployment, as strict as `kubectl apply` is with it."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path
from typing import Any

import jsonschema
import yaml

from ops.paths import OPERATOR_JARS

_ENTRY = "META-INF/fabric8/flinkdeployments.flink.apache.org-v1.yml"
# Kubernetes fills these parts of every object and checks them itself; CRDs say nothing of them.
_COMMON = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {}}


def published_crd() -> dict[str, Any]:
    """The CustomResourceDefinition: of the pinned artifact, or of the file that a variable names.

    `TABLEGATE_OPERATOR_CRD` is for people whose operator is another release.
    """
    own = os.environ.get("TABLEGATE_OPERATOR_CRD")
    if own:
        text = Path(own).read_text()
    else:
        (jar,) = OPERATOR_JARS.glob("flink-kubernetes-operator-api-*.jar")
        with zipfile.ZipFile(jar) as opened:
            text = opened.read(_ENTRY).decode()
    # Half a megabyte, for which the parser in Python needs seconds.
    crd: dict[str, Any] = yaml.load(text, yaml.CSafeLoader)
    return crd


def schema_of(crd: dict[str, Any], version: str) -> dict[str, Any]:
    """JSON schema of one version of the resource; a field that it does not name is an error.

    Kubernetes' dialect leaves unknown fields to the API server, which drops them, and `kubectl
    apply`, which refuses them; here `additionalProperties: false` refuses them, save where
    `x-kubernetes-preserve-unknown-fields` lets them be.
    """
    (served,) = [v for v in crd["spec"]["versions"] if v["name"] == version and v["served"]]
    schema: dict[str, Any] = _strict(served["schema"]["openAPIV3Schema"])
    schema["properties"] = _COMMON | schema["properties"]
    schema["required"] = ["apiVersion", "kind", "metadata", "spec"]
    return schema


def errors_of(manifest: dict[str, Any], schema: dict[str, Any]) -> dict[str, str]:
    """What is wrong: path in the manifest, with dots, to the message. Empty when it is valid."""
    validator = jsonschema.Draft202012Validator(schema)
    return {
        ".".join(str(part) for part in error.absolute_path): error.message
        for error in validator.iter_errors(manifest)
    }


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(item) for item in node]
    if not isinstance(node, dict):
        return node
    strict = {key: _strict(value) for key, value in node.items()}
    named = node.get("type") == "object" and isinstance(node.get("properties"), dict)
    if (
        named
        and "additionalProperties" not in node
        and not node.get("x-kubernetes-preserve-unknown-fields")
    ):
        strict["additionalProperties"] = False
    return strict
