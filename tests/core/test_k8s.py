"""The manifests of k8s/: valid by the operator's and Kubernetes' schemas, and true to the rest."""

from __future__ import annotations

import copy
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import typer.main
import yaml

from jobs import enrich, enrich_sql
from jobs.settings import load
from jobs.sql.refusals import refuse
from ops.cli import app
from ops.paths import FLINK_CONF, ROOT
from tests.support.crd import errors_of, published_crd, schema_of
from tests.support.kafka import flink_version

K8S = ROOT / "k8s"
HOME = "/opt/tablegate"
SECRET_VARIABLE = "KAFKA_PASSWORD"  # noqa: S105  (a variable's name)
# Oldest and newest of the Kubernetes lines that the validator has schemas for and that are in use.
KUBERNETES_LINES = ("1.31", "1.37")
# What Flink or the operator sets on Kubernetes, whatever the configuration says.
NOT_IN_MANIFEST = {
    "jobmanager.rpc.address",
    "jobmanager.bind-host",
    "taskmanager.bind-host",
    "rest.address",
    "rest.bind-address",
    "rest.port",
    "jobmanager.memory.process.size",
    "taskmanager.memory.process.size",
}
# What only a Kubernetes cluster has.
ONLY_IN_MANIFEST = ("kubernetes.", "high-availability.")

Manifest = dict[str, Any]


def manifests(text: str) -> dict[str, Manifest]:
    """Kind to object."""
    found = [document for document in yaml.safe_load_all(text) if document]
    by_kind = {document["kind"]: document for document in found}
    assert len(by_kind) == len(found)
    return by_kind


def read(name: str) -> dict[str, Manifest]:
    return manifests((K8S / name).read_text())


@pytest.fixture
def job() -> Manifest:
    return read("job.yaml")["FlinkDeployment"]


@pytest.fixture
def ready() -> Manifest:
    return read("ready.yaml")["Deployment"]


@pytest.fixture(scope="module")
def crd_schema() -> Manifest:
    return schema_of(published_crd(), "v1beta1")


@pytest.fixture(scope="module")
def cluster_config() -> Manifest:
    loaded: Manifest = yaml.safe_load((FLINK_CONF / "cluster" / "config.yaml").read_text())
    return loaded


def container(pod: Manifest) -> Manifest:
    (only,) = pod["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def flat(value: object) -> str:
    """As Flink reads it from config.yaml."""
    return str(value).lower() if isinstance(value, bool) else str(value)


# ------------------------------------------------------------------------------- schemas


def test_the_job_is_valid_by_the_operators_crd(job: Manifest, crd_schema: Manifest) -> None:
    errors = errors_of(job, crd_schema)
    known = crd_schema["properties"]["spec"]["properties"]["flinkVersion"]["enum"]
    if job["spec"]["flinkVersion"] not in known:
        # The newest published artifact is older than Flink 2.3: docs/kubernetes.md says so. Nothing
        # else may be wrong, and a newer artifact has to end this exception.
        assert "TABLEGATE_OPERATOR_CRD" not in os.environ, known
        assert known[-1] == "v1_20"
        message = errors.pop("spec.flinkVersion")
        assert "is not one of" in message
    assert errors == {}


def _mistype(job: Manifest) -> str:
    job["spec"]["job"]["upgrademode"] = job["spec"]["job"].pop("upgradeMode")
    return "spec.job"


def _unknown_value(job: Manifest) -> str:
    job["spec"]["job"]["upgradeMode"] = "save-point"
    return "spec.job.upgradeMode"


def _wrong_type(job: Manifest) -> str:
    job["spec"]["flinkConfiguration"]["taskmanager.numberOfTaskSlots"] = 1
    return "spec.flinkConfiguration.taskmanager.numberOfTaskSlots"


def _deep_in_a_pod(job: Manifest) -> str:
    probe = container(job["spec"]["jobManager"]["podTemplate"])["livenessProbe"]
    probe["httpget"] = probe.pop("httpGet")
    return "spec.jobManager.podTemplate.spec.containers.0.livenessProbe"


def _no_spec(job: Manifest) -> str:
    del job["spec"]
    return ""


@pytest.mark.parametrize(
    "break_it", [_mistype, _unknown_value, _wrong_type, _deep_in_a_pod, _no_spec]
)
def test_a_wrong_manifest_is_refused(
    job: Manifest, crd_schema: Manifest, break_it: Callable[[Manifest], str]
) -> None:
    if break_it is _wrong_type and "TABLEGATE_OPERATOR_CRD" in os.environ:
        pytest.skip("newer operators take any value in flinkConfiguration")
    before = set(errors_of(job, crd_schema))
    broken = copy.deepcopy(job)
    place = break_it(broken)
    assert place in set(errors_of(broken, crd_schema)) - before


def test_unknown_fields_pass_only_where_the_schema_preserves_them() -> None:
    def schema(inner: Manifest) -> Manifest:
        served = {"type": "object", "properties": {"spec": {"type": "object", **inner}}}
        versions = [{"name": "v1", "served": True, "schema": {"openAPIV3Schema": served}}]
        return schema_of({"spec": {"versions": versions}}, "v1")

    manifest = {"apiVersion": "v1", "kind": "X", "metadata": {}, "spec": {"a": 1, "b": 2}}
    named = {"properties": {"a": {"type": "integer"}}}
    assert list(errors_of(manifest, schema(named))) == ["spec"]
    preserving = named | {"x-kubernetes-preserve-unknown-fields": True}
    assert errors_of(manifest, schema(preserving)) == {}
    mapping = {"additionalProperties": {"type": "integer"}}
    assert errors_of(manifest, schema(mapping)) == {}


def test_the_standard_objects_are_valid(ready: Manifest) -> None:
    objects = [ready, *read("state.yaml").values(), *read("secret.example.yaml").values()]
    assert [thing["kind"] for thing in objects] == ["Deployment", "PersistentVolumeClaim", "Secret"]
    for line in KUBERNETES_LINES:
        for thing in objects:
            kubernetes_validate.validate(thing, line, strict=True)


def test_the_pod_templates_are_valid_pods(job: Manifest) -> None:
    # The operator's schema names no required field in them; Kubernetes' own does.
    templates = [job["spec"], job["spec"]["jobManager"], job["spec"]["taskManager"]]
    for template in templates:
        kubernetes_validate.validate(template["podTemplate"], KUBERNETES_LINES[0], strict=True)
    del container(job["spec"]["podTemplate"])["name"]
    with pytest.raises(kubernetes_validate.ValidationError, match="'name' is a required property"):
        kubernetes_validate.validate(job["spec"]["podTemplate"], KUBERNETES_LINES[0], strict=True)


def test_a_wrong_standard_object_is_refused(ready: Manifest) -> None:
    probe = container(ready["spec"]["template"])["readinessProbe"]
    probe["periodSecond"] = 1
    with pytest.raises(kubernetes_validate.ValidationError, match="periodSecond"):
        kubernetes_validate.validate(ready, KUBERNETES_LINES[0], strict=True)


def test_the_kustomization_names_every_manifest_and_no_other() -> None:
    kustomization = read("kustomization.yaml")["Kustomization"]
    named = {*kustomization["resources"], *kustomization["configurations"]}
    named |= {name for made in kustomization["configMapGenerator"] for name in made["files"]}
    there = {path.name for path in K8S.iterdir()}
    assert there - named == {"kustomization.yaml", "secret.example.yaml"}
    assert named <= there


def test_kustomize_sets_image_and_config_map_in_all_of_them(
    crd_schema: Manifest, job: Manifest
) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl here")
    command = [kubectl, "kustomize", str(K8S)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    rendered = manifests(result.stdout)
    made, deployed = rendered["ConfigMap"], rendered["FlinkDeployment"]
    assert made["data"]["job.toml"] == (K8S / "job.toml").read_text()
    assert made["metadata"]["name"].startswith("orders-enrich-")
    (volume,) = deployed["spec"]["jobManager"]["podTemplate"]["spec"]["volumes"]
    assert volume["configMap"]["name"] == made["metadata"]["name"]
    (image,) = read("kustomization.yaml")["Kustomization"]["images"]
    wanted = f"{image['newName']}:{image['newTag']}"
    assert deployed["spec"]["image"] == wanted
    assert container(rendered["Deployment"]["spec"]["template"])["image"] == wanted
    assert errors_of(deployed, crd_schema) == errors_of(job, crd_schema)


def test_kustomize_makes_the_sql_variant_of_the_same_manifests(
    crd_schema: Manifest, job: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("no kubectl here")
    command = [kubectl, "kustomize", str(ROOT / "k8s-sql")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    deployed = manifests(result.stdout)["FlinkDeployment"]
    assert errors_of(deployed, crd_schema) == errors_of(job, crd_schema)
    arguments = deployed["spec"]["job"]["args"]
    plain = job["spec"]["job"]["args"]
    assert arguments[:3] == plain[:3]
    assert arguments[3] == f"{HOME}/jobs/enrich_sql.py"
    own = enrich_sql._parser().parse_args(arguments[4:])
    assert own.config == enrich._parser().parse_args(plain[4:]).config
    assert own.sql == Path(HOME) / "sql"
    assert "COPY sql/ sql/\n" in (ROOT / "Dockerfile").read_text()
    monkeypatch.setenv(SECRET_VARIABLE, "hunter2")
    refuse(load(K8S / "job.toml", own.set))


# ------------------------------------------------------------------------------- facts


def test_its_flink_settings_are_those_of_the_cluster_configuration(
    job: Manifest, cluster_config: Manifest
) -> None:
    ours = job["spec"]["flinkConfiguration"]
    shared = {key: value for key, value in ours.items() if not key.startswith(ONLY_IN_MANIFEST)}
    expected = {
        key: flat(value)
        for key, value in cluster_config.items()
        # High availability is by Kubernetes there, and by ZooKeeper elsewhere.
        if key not in NOT_IN_MANIFEST and not key.startswith(ONLY_IN_MANIFEST)
    }
    assert shared == expected
    assert list(shared) == [key for key in cluster_config if key in shared]


def test_its_memory_is_that_of_the_cluster_configuration(
    job: Manifest, cluster_config: Manifest
) -> None:
    for name in ("jobManager", "taskManager"):
        size = cluster_config[f"{name.lower()}.memory.process.size"]
        assert job["spec"][name]["resource"]["memory"] == size


def test_its_logging_is_that_of_the_cluster_configuration(job: Manifest) -> None:
    for name, text in job["spec"]["logConfiguration"].items():
        assert text == (FLINK_CONF / "cluster" / name).read_text()


def test_its_versions_are_those_of_the_project(job: Manifest) -> None:
    major, minor, _ = flink_version().split(".")
    assert job["spec"]["flinkVersion"] == f"v{major}_{minor}"
    assert job["spec"]["job"]["jarURI"].endswith(f"/flink-python-{flink_version()}.jar")


def test_its_paths_are_in_the_image(job: Manifest) -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert f"WORKDIR {HOME}\n" in dockerfile
    copied = re.findall(r"^COPY .*?(\S+/) \S+$", dockerfile, re.MULTILINE)
    submitted = job["spec"]["job"]
    paths = [submitted["jarURI"].removeprefix("local://"), *submitted["args"]]
    inside = [path.removeprefix(f"{HOME}/") for path in paths if path.startswith(f"{HOME}/")]
    assert len(inside) == 3
    for path in inside:
        # Copied into it, or made there by the set-up as it is made here.
        assert (ROOT / path).exists(), path
        assert path.startswith(("build/", *copied))
    # `command:` of readiness and Flink's scripts are found by PATH.
    assert f"PATH={HOME}/build/flink-home/bin:{HOME}/.venv/bin:$PATH" in dockerfile
    assert (ROOT / "build/flink-home/bin/kubernetes-jobmanager.sh").exists()


def test_its_arguments_are_those_of_the_job(job: Manifest) -> None:
    arguments = job["spec"]["job"]["args"]
    driver, own = arguments[:4], arguments[4:]
    assert (driver[0], driver[2]) == ("-pyfs", "-py")
    assert driver[3] == f"{HOME}/jobs/enrich.py"
    config = enrich._parser().parse_args(own).config
    (mount,) = container(job["spec"]["jobManager"]["podTemplate"])["volumeMounts"]
    (volume,) = job["spec"]["jobManager"]["podTemplate"]["spec"]["volumes"]
    (made,) = read("kustomization.yaml")["Kustomization"]["configMapGenerator"]
    assert mount["name"] == volume["name"]
    assert volume["configMap"]["name"] == made["name"]
    assert [str(Path(mount["mountPath"]) / name) for name in made["files"]] == [str(config)]


def test_its_settings_file_holds_and_agrees_with_the_manifest(
    job: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SECRET_VARIABLE, "hunter2")
    settings = load(K8S / "job.toml", [])
    assert settings.job.parallelism == job["spec"]["job"]["parallelism"]
    assert "hunter2" not in settings.describe()


def test_every_secret_of_the_settings_file_reaches_the_jobmanager(job: Manifest) -> None:
    text = (K8S / "job.toml").read_text()
    asked = set(re.findall(r"\$\{env:(\w+)\}", text))
    assert asked == {SECRET_VARIABLE}
    given = {
        entry["name"]: entry["valueFrom"]["secretKeyRef"]
        for entry in container(job["spec"]["jobManager"]["podTemplate"])["env"]
    }
    assert set(given) == asked
    example = read("secret.example.yaml")["Secret"]
    for source in given.values():
        assert source["name"] == example["metadata"]["name"]
        assert source["key"] in example["stringData"]


def test_what_outlives_a_process_is_on_a_volume(job: Manifest) -> None:
    spec, config = job["spec"], job["spec"]["flinkConfiguration"]
    mounts = {m["mountPath"]: m["name"] for m in container(spec["podTemplate"])["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in spec["podTemplate"]["spec"]["volumes"]}

    def behind(path: str) -> Manifest:
        inside = [m for m in mounts if f"{path}/".startswith(f"{m}/")]
        found: Manifest = volumes[mounts[max(inside, key=len)]]
        return found

    claim = read("state.yaml")["PersistentVolumeClaim"]
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    for key in (
        "execution.checkpointing.dir",
        "execution.checkpointing.savepoint-dir",
        "high-availability.storageDir",
    ):
        volume = behind(config[key].removeprefix("file://"))
        assert volume["persistentVolumeClaim"]["claimName"] == claim["metadata"]["name"]
    # On the node: a shared disk would be slower than the checkpoint that it is a copy of.
    assert "emptyDir" in behind(config["process.taskmanager.working-dir"])


def test_pod_templates_that_share_a_list_are_merged_by_name(job: Manifest) -> None:
    spec = job["spec"]
    common, own = (container(t["podTemplate"]) for t in (spec, spec["jobManager"]))
    names = [{entry["name"] for entry in each["env"]} for each in (common, own)]
    assert names == [{"FLINK_CONF_DIR"}, {SECRET_VARIABLE}]
    flag = "kubernetes.operator.pod-template.merge-arrays-by-name"
    assert spec["flinkConfiguration"][flag] == "true"
    directory = spec["flinkConfiguration"]["kubernetes.flink.conf.dir"]
    assert common["env"] == [{"name": "FLINK_CONF_DIR", "value": directory}]


def test_an_upgrade_takes_a_savepoint_and_never_drains(job: Manifest) -> None:
    spec = job["spec"]
    assert spec["job"]["upgradeMode"] == "savepoint"
    assert spec["flinkConfiguration"]["kubernetes.operator.job.drain-on-savepoint-deletion"] == (
        "false"
    )
    assert spec["flinkConfiguration"]["high-availability.type"] == "kubernetes"


# ------------------------------------------------------------------------------- alive and ready


def test_no_pod_of_flink_is_ready_or_alive_by_the_gate(
    job: Manifest, cluster_config: Manifest
) -> None:
    # Unready, a JobManager is cut off from the operator; not alive, a long load is killed.
    probes = {}
    for name in ("jobManager", "taskManager"):
        own = container(job["spec"][name]["podTemplate"])
        assert "readinessProbe" not in own
        assert "exec" not in own["livenessProbe"]
        probes[name] = own["livenessProbe"]
    assert "readinessProbe" not in container(job["spec"]["podTemplate"])
    assert probes["jobManager"]["httpGet"]["port"] == cluster_config["rest.port"]


def test_ready_is_what_status_says_of_this_job(
    job: Manifest, ready: Manifest, cluster_config: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking = container(ready["spec"]["template"])
    assert "livenessProbe" not in asking
    program, command, *options = asking["readinessProbe"]["exec"]["command"]
    assert (program, command) == ("tablegate", "status")
    monkeypatch.setenv(SECRET_VARIABLE, "x")
    given = dict(option.partition("=")[::2] for option in options)
    assert given == {
        "--rest-url": f"http://{job['metadata']['name']}-rest:{cluster_config['rest.port']}",
        "--job": load(K8S / "job.toml", []).job.name,
        "--json": "",
    }
    (status,) = [c for c in typer.main.get_command(app).commands.values() if c.name == command]  # type: ignore[attr-defined]
    known = {name for parameter in status.params for name in parameter.opts}
    assert set(given) <= known


def test_a_rollout_replaces_the_readiness_pod_at_once(ready: Manifest) -> None:
    spec = ready["spec"]
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    assert (spec["replicas"], spec["strategy"]["type"]) == (1, "Recreate")
