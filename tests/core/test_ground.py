"""What the project stands on, checked without a JVM: pins, lock, settings, container files."""

import ast
import itertools
import json
import re
import shutil
import subprocess
import tomllib
import zipfile
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import yaml

from ops import package as packaging
from ops import setup
from ops.cli import app
from ops.flink_run import arguments, shown
from ops.paths import FLINK_CONF, LOCK, POM, PYPROJECT, ROOT
from ops.stack.assemble import assemble_home, wheel_home, write_conf
from ops.stack.broker import _PROPERTIES
from ops.stack.local import Addresses
from tests.support.kafka import (
    ApacheKafkaContainer,
    engine_answers,
    flink_version,
    kafka_version,
)
from udfs.core.errors import StackError

CONF_FILES = sorted(path for path in FLINK_CONF.glob("*/*") if path.is_file())
CONFIGS = [path for path in CONF_FILES if path.suffix == ".yaml"]
LOG_CONFIGS = [path for path in CONF_FILES if path.suffix == ".properties"]


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def project() -> dict[str, Any]:
    loaded: dict[str, Any] = tomllib.loads(PYPROJECT.read_text())["project"]
    return loaded


def declared() -> dict[str, str]:
    """Declared Python dependencies, normalised name to version."""
    listed = [*project()["dependencies"], *project()["optional-dependencies"]["dev"]]
    pins = (entry.partition("==") for entry in listed)
    return {name.lower().replace("_", "-"): version for name, _, version in pins}


def locked() -> dict[str, tuple[str, str]]:
    """The lock: name to version and to the text of its entry."""
    entries = re.split(r"^(?=[a-z0-9])", LOCK.read_text(), flags=re.MULTILINE)[1:]
    parts = (re.match(r"([a-z0-9.-]+)==(\S+)", entry) for entry in entries)
    return {
        match[1]: (match[2], entry) for match, entry in zip(parts, entries, strict=True) if match
    }


# ------------------------------------------------------------------------------- Python


def test_every_dependency_is_pinned_and_has_its_reason_above_it() -> None:
    lines = PYPROJECT.read_text().splitlines()
    entries = [
        (before.strip(), line.strip())
        for before, line in itertools.pairwise(lines)
        if re.fullmatch(r'  "[A-Za-z][\w.-]*==.*",', line)
    ]
    assert len(entries) == len(declared())
    # The types- packages share one reason.
    explained = ("#", '"types-')
    assert [line for before, line in entries if not before.startswith(explained)] == []
    assert all(re.fullmatch(r"\d[\w.]*", version) for version in declared().values())


def test_the_lock_is_what_pyproject_asks_for() -> None:
    direct = {
        name: version
        for name, (version, entry) in locked().items()
        if "tablegate (pyproject.toml)" in entry
    }
    assert direct == declared()


def test_every_locked_package_has_a_hash_and_no_index_is_named() -> None:
    assert [name for name, (_, entry) in locked().items() if "--hash=sha256:" not in entry] == []
    assert "://" not in LOCK.read_text()
    assert "index-url" not in LOCK.read_text()


def test_the_build_backend_is_the_locked_one() -> None:
    (backend,) = tomllib.loads(PYPROJECT.read_text())["build-system"]["requires"]
    assert backend == f"setuptools=={locked()['setuptools'][0]}"


def test_the_licence_is_apache() -> None:
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert project()["license"] == "Apache-2.0"


def test_core_imports_only_core_of_our_packages() -> None:
    # The import contract forbids Flink; that other modules of udfs stay away is checked here, where
    # a new module needs no new entry.
    wrong = []
    for path in (ROOT / "udfs" / "core").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            wrong += [
                f"{name_of(path)}: {name}"
                for name in names
                if name.partition(".")[0] in {"jobs", "ops", "udfs"}
                and not f"{name}.".startswith("udfs.core.")
            ]
    assert wrong == []


# ------------------------------------------------------------------------------- set-up


def test_a_step_runs_when_its_inputs_change_and_only_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, product = tmp_path / "source", tmp_path / "product"
    source.write_text("1")
    runs: list[str] = []

    def make() -> None:
        runs.append(source.read_text())
        product.touch()

    def follow() -> None:
        runs.append("follow")

    steps = [
        setup.Step("make", (source,), (product,), make),
        setup.Step("follow", (), (), follow, ("make",)),
    ]
    monkeypatch.setattr(setup, "steps", lambda: steps)
    monkeypatch.setattr(setup, "STAMPS", tmp_path / "stamps")
    monkeypatch.setattr(setup, "package", lambda: False)
    monkeypatch.setattr(
        setup, "digest", lambda paths, salt: packaging.digest(paths, tmp_path, salt)
    )

    def quiet(_: str) -> None: ...

    assert setup.setup(quiet) == ["make", "follow"]
    assert setup.setup(quiet) == []
    source.touch()
    assert setup.setup(quiet) == []
    source.write_text("2")
    assert setup.setup(quiet) == ["make", "follow"]
    product.unlink()
    assert setup.setup(quiet) == ["make"]
    assert runs == ["1", "follow", "2", "follow", "2"]


def test_a_step_that_failed_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise setup.SetupError("no network")

    monkeypatch.setattr(setup, "steps", lambda: [setup.Step("fail", (), (), fail)])
    monkeypatch.setattr(setup, "STAMPS", tmp_path)
    for _ in range(2):
        with pytest.raises(setup.SetupError):
            setup.setup(lambda _: None)


def test_the_package_holds_both_packages_and_is_remade_when_they_change(tmp_path: Path) -> None:
    for name in ("jobs/__init__.py", "jobs/enrich.py", "udfs/core/gate.py", "ops/cli.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")
    cache = tmp_path / "jobs" / "__pycache__" / "enrich.pyc"
    cache.parent.mkdir()
    cache.touch()
    target = tmp_path / "out" / "udfs.zip"

    assert packaging.package(target, tmp_path)
    assert zipfile.ZipFile(target).namelist() == [
        "jobs/__init__.py",
        "jobs/enrich.py",
        "udfs/core/gate.py",
    ]
    first = target.read_bytes()
    assert not packaging.package(target, tmp_path)
    (tmp_path / "jobs" / "enrich.py").write_text("x = 2\n")
    assert packaging.package(target, tmp_path)
    (tmp_path / "jobs" / "enrich.py").unlink()
    assert packaging.package(target, tmp_path)
    assert "jobs/enrich.py" not in zipfile.ZipFile(target).namelist()
    (tmp_path / "jobs" / "enrich.py").write_text("x = 1\n")
    assert packaging.package(target, tmp_path)
    assert target.read_bytes() == first


def fake_wheel(folder: Path, *python_jars: str) -> Path:
    for name in ("bin/jobmanager.sh", "lib/flink-dist-9.jar", "plugins/metrics-x/x.jar"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    (folder / "opt").mkdir()
    for jar in python_jars:
        (folder / "opt" / jar).write_text("the real one")
    return folder


def test_the_flink_home_has_flink_python_in_lib_and_an_empty_one_in_opt(tmp_path: Path) -> None:
    wheel = fake_wheel(tmp_path / "wheel", "flink-python-9.jar")
    connector = tmp_path / "jars" / "flink-sql-connector-kafka-9.jar"
    connector.parent.mkdir()
    connector.touch()
    home = tmp_path / "home"
    (wheel / "opt" / "flink-sql-client-9.jar").touch()
    gateway = tmp_path / "gateway" / "flink-sql-gateway-9.jar"
    gateway.parent.mkdir()
    gateway.touch()
    for _ in range(2):
        assemble_home(
            home, wheel=wheel, connector_jars=connector.parent, gateway_jars=gateway.parent
        )
    # `flink run` counts the jars of flink-python in here, the SQL client looks for its gateway.
    assert {path.name for path in (home / "opt").iterdir()} == {
        "flink-python-9.jar",
        "flink-sql-client-9.jar",
        "flink-sql-gateway-9.jar",
    }
    assert (home / "lib" / "flink-python-9.jar").read_text() == "the real one"
    assert zipfile.ZipFile(home / "opt" / "flink-python-9.jar").namelist() == [
        "META-INF/MANIFEST.MF"
    ]
    assert {path.name for path in (home / "lib").iterdir()} == {
        "flink-dist-9.jar",
        "flink-python-9.jar",
        "flink-sql-connector-kafka-9.jar",
    }
    # The scripts find their home from where they are: a link would lead into the wheel.
    assert not (home / "bin" / "jobmanager.sh").is_symlink()
    assert (home / "plugins" / "metrics-x" / "x.jar").exists()
    config = yaml.safe_load((home / "conf" / "config.yaml").read_text())
    assert config["python.pythonpath"].endswith("site-packages")
    assert "--add-opens=java.base/java.lang=ALL-UNNAMED" in config["env.java.opts.all"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gateway", "home", "jars", "wheel"]


def test_an_incomplete_set_up_says_what_to_do(tmp_path: Path) -> None:
    wheel = fake_wheel(tmp_path / "wheel", "flink-python-9.jar")
    with pytest.raises(StackError, match=r"flink-sql-connector-kafka.*make setup"):
        assemble_home(tmp_path / "home", wheel=wheel, connector_jars=tmp_path)
    (tmp_path / "flink-sql-connector-kafka-9.jar").touch()
    with pytest.raises(StackError, match=r"flink-sql-gateway.*make setup"):
        assemble_home(
            tmp_path / "home", wheel=wheel, connector_jars=tmp_path, gateway_jars=tmp_path
        )


# ------------------------------------------------------------------------------- settings


@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
def test_every_flink_setting_has_its_reason_above_it(path: Path) -> None:
    lines = path.read_text().splitlines()
    keys = [number for number, line in enumerate(lines) if re.match(r"[a-z]", line)]
    assert len(keys) == len(yaml.safe_load(path.read_text()))
    assert [lines[number] for number in keys if not lines[number - 1].startswith("# ")] == []
    # A ruled line is a heading, not a reason.
    assert [lines[number] for number in keys if "-----" in lines[number - 1]] == []


@pytest.mark.parametrize("path", LOG_CONFIGS, ids=name_of)
def test_every_group_of_log_settings_has_its_reason_above_it(path: Path) -> None:
    groups = path.read_text().strip().split("\n\n")
    assert [group for group in groups if not group.startswith("# ")] == []


@pytest.mark.parametrize("path", LOG_CONFIGS, ids=name_of)
def test_no_log_gets_the_environment_of_the_python_that_draws_the_graph(path: Path) -> None:
    # The client writes into one of these files' logs, in application mode the JobManager into the
    # other's. A class that Flink renamed would go on printing without a word.
    printer = "org.apache.flink.client.python.PythonEnvUtils"
    with zipfile.ZipFile(wheel_home() / f"opt/flink-python-{flink_version()}.jar") as jar:
        assert b"environment variables: {" in jar.read(f"{printer.replace('.', '/')}.class")
    lines = [line.partition("=")[::2] for line in path.read_text().splitlines()]
    settings = {key.strip(): value.strip() for key, value in lines if not key.startswith("#")}
    (name,) = (key for key, value in settings.items() if value == printer)
    assert settings[f"{name.removesuffix('.name')}.level"] == "WARN"


@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
def test_the_cluster_owns_no_setting_of_the_job(path: Path) -> None:
    jobs_own = re.compile(r"python\.fn-execution|pipeline\.(?!object-reuse)|parallelism")
    assert [key for key in yaml.safe_load(path.read_text()) if jobs_own.search(key)] == []


@pytest.fixture(scope="module")
def option_constants() -> bytes:
    """The class files in which this Flink declares its options, names as they stand in them."""
    jars = {
        "lib/flink-dist": r"org/apache/flink/(configuration|state/rocksdb)/\w*(Options|Config)",
        "opt/flink-python": r"org/apache/flink/python/PythonOptions",
    }
    found = b""
    for jar, pattern in jars.items():
        with zipfile.ZipFile(wheel_home() / f"{jar}-{flink_version()}.jar") as opened:
            names = [name for name in opened.namelist() if re.match(pattern, name)]
            found += b"".join(opened.read(name) for name in names)
    return found


@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
def test_every_flink_setting_is_one_that_this_flink_knows(
    path: Path, option_constants: bytes
) -> None:
    # Flink ignores a mistyped or renamed option without a word.
    def constant(text: str) -> bytes:
        # As a class file stores it, with its length: half a name is not found inside a whole one.
        return len(text).to_bytes(2, "big") + text.encode()

    reporters = "metrics.reporter."  # options with a name of our own inside
    keys = [key for key in yaml.safe_load(path.read_text()) if not key.startswith(reporters)]
    assert [key for key in keys if constant(key) not in option_constants] == []


@pytest.mark.parametrize("path", CONFIGS, ids=name_of)
def test_the_jvm_options_are_those_of_the_wheel(path: Path) -> None:
    wheels = yaml.safe_load((wheel_home() / "conf" / "config.yaml").read_text())
    ours = yaml.safe_load(path.read_text())["env.java.opts.all"]
    assert ours.split() == wheels["env"]["java"]["opts"]["all"].split()


def test_an_instance_has_the_reasoned_settings_and_its_own_over_them(tmp_path: Path) -> None:
    write_conf(
        FLINK_CONF / "local",
        tmp_path,
        {"rest.port": 12345, "taskmanager.memory.process.size": "1g"},
    )
    written = yaml.safe_load((tmp_path / "config.yaml").read_text())
    source = yaml.safe_load((FLINK_CONF / "local" / "config.yaml").read_text())
    assert written == {
        **source,
        "rest.port": 12345,
        "taskmanager.memory.process.size": "1g",
    }
    assert (tmp_path / "log4j-console.properties").exists()
    # Flink's shell scripts read this file line by line.
    lines = (tmp_path / "config.yaml").read_text().splitlines()
    assert len(lines) == len(written) + 1


# ------------------------------------------------------------------------------- containers


def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
    return loaded


def test_the_containers_run_the_versions_that_pom_and_pyproject_state() -> None:
    services = compose()["services"]
    assert services["kafka"]["image"] == f"apache/kafka:{kafka_version()}"
    dockerfile = (ROOT / "Dockerfile").read_text()
    python = project()["requires-python"].removeprefix("==").removesuffix(".*")
    assert f"FROM python:{python}-" in dockerfile
    assert f"RUN python{python} -m ops.setup" in dockerfile
    # The Flink in the image is the wheel's: no other version of it may be named.
    assert re.findall(r"flink[:=-]v?(\d+\.\d+\.\d+)", dockerfile) == []


def test_the_connector_is_for_a_flink_line_that_this_flink_can_run() -> None:
    version = re.search(r"<kafka.connector.version>(.*)<", POM.read_text())
    assert version
    built_for = tuple(int(part) for part in version[1].rpartition("-")[2].split("."))
    running = tuple(int(part) for part in flink_version().split(".")[:2])
    assert built_for[0] == running[0]
    assert built_for <= running


def test_the_gateway_is_of_the_wheels_version() -> None:
    version = re.search(r"<flink.version>(.*)<", POM.read_text())
    assert version
    assert version[1] == flink_version()


def test_the_image_holds_what_the_set_up_reads() -> None:
    copied = re.findall(r"^COPY (.*) \S+$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    names = {name.rstrip("/") for line in copied for name in line.split()}
    needed = {"pom.xml", "pyproject.toml", "requirements.lock", "flink-conf", *packaging.SHIPPED}
    # sql/ is what jobs/enrich_sql.py reads.
    assert needed | {"ops", "sql"} <= names
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_the_containers_agree_with_the_cluster_configuration() -> None:
    services = compose()["services"]
    config = yaml.safe_load((FLINK_CONF / "cluster" / "config.yaml").read_text())
    assert config["jobmanager.rpc.address"] in services
    assert config["rest.address"] in services
    assert config["high-availability.zookeeper.quorum"].partition(":")[0] in services
    assert services["jobmanager"]["ports"] == [f"127.0.0.1:{config['rest.port']}:8081"]
    for name in ("jobmanager", "taskmanager"):
        (volume,) = services[name]["volumes"]
        mount = volume.partition(":")[2]
        for key in (
            "execution.checkpointing.dir",
            "execution.checkpointing.savepoint-dir",
            "process.taskmanager.working-dir",
            "high-availability.storageDir",
        ):
            assert config[key].removeprefix("file://").startswith(f"{mount}/")
        assert services[name]["command"] == [f"{name}.sh", "start-foreground"]
    home = re.search(r"^WORKDIR (\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert home
    for key in ("python.executable", "python.client.executable", "python.pythonpath"):
        assert config[key].startswith(f"{home[1]}/.venv/")


def test_every_listener_of_the_kafka_container_is_advertised_mapped_and_published() -> None:
    kafka = compose()["services"]["kafka"]
    environment = kafka["environment"]

    def parse(name: str, separator: str) -> dict[str, str]:
        pairs = (item.split(separator, 1) for item in environment[name].split(","))
        return {name: value for name, value in pairs}  # noqa: C416  (dict() loses the types)

    listeners = parse("KAFKA_LISTENERS", "://")
    advertised = parse("KAFKA_ADVERTISED_LISTENERS", "://")
    protocols = parse("KAFKA_LISTENER_SECURITY_PROTOCOL_MAP", ":")
    controllers = {environment["KAFKA_CONTROLLER_LISTENER_NAMES"]}
    assert set(listeners) == set(protocols)
    assert set(advertised) == set(listeners) - controllers
    for name, address in advertised.items():
        assert address.rpartition(":")[2] == listeners[name].rpartition(":")[2]
    assert environment["KAFKA_INTER_BROKER_LISTENER_NAME"] in advertised
    assert advertised[environment["KAFKA_INTER_BROKER_LISTENER_NAME"]].startswith("kafka:")
    outside = advertised["OUTSIDE"].rpartition(":")[2]
    assert kafka["ports"] == [f"127.0.0.1:{outside}:{outside}"]
    assert environment["KAFKA_CONTROLLER_QUORUM_VOTERS"].startswith(environment["KAFKA_NODE_ID"])


def test_both_kafkas_have_the_same_manners() -> None:
    environment = compose()["services"]["kafka"]["environment"]
    for key in ("auto.create.topics.enable", "offsets.topic.replication.factor"):
        assert environment[f"KAFKA_{key.upper().replace('.', '_')}"] == _PROPERTIES[key]


def test_docker_compose_accepts_the_file() -> None:
    # The client alone can check it; no engine is asked.
    for name in (["docker", "compose"], ["docker-compose"]):
        program = shutil.which(name[0])
        if program is None:
            continue
        command = [program, *name[1:]]
        if subprocess.run([*command, "version"], capture_output=True, check=False).returncode:
            continue
        command += ["-f", str(ROOT / "docker-compose.yml"), "config", "--quiet"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 0, result.stderr
        return
    pytest.skip("no docker compose here")


def test_the_tests_container_tells_clients_its_mapped_port(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("testcontainers.core.container.DockerClient", mock.Mock())
    container = ApacheKafkaContainer()
    assert container.image == f"apache/kafka:{kafka_version()}"
    scripts: list[str] = []
    monkeypatch.setattr(container, "get_container_host_ip", lambda: "docker-host")
    monkeypatch.setattr(container, "get_exposed_port", lambda port: port + 40000)
    monkeypatch.setattr(container, "create_file", lambda text, _: scripts.append(text.decode()))
    container.configure()
    container.tc_start()
    assert "PLAINTEXT://docker-host:49093," in scripts[0]
    assert container.env["KAFKA_LISTENERS"].startswith("PLAINTEXT://0.0.0.0:9093,")
    assert container.env["KAFKA_PROCESS_ROLES"] == "broker,controller"


def test_an_engine_that_does_not_answer_is_not_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    assert not engine_answers()


# ------------------------------------------------------------------------------- the command


def test_a_secret_on_the_command_line_is_masked_when_shown() -> None:
    line = arguments(
        config="orders.toml",
        overrides=[
            "kafka.properties.sasl.jaas.config=org.apache.Plain password='hunter2';",
            "kafka.properties.ssl.key.password=hunter2",
            "kafka.librdkafka.sasl.password = hunter2",
            "stream.key.path=customer_id",
        ],
        from_savepoint="/savepoints/1",
    )
    text = shown(line)
    assert "hunter2" not in text
    assert "stream.key.path=customer_id" in text
    assert text.count("***") == 3
    assert text.startswith("flink run -d -s /savepoints/1 -pyexec ")


def test_every_command_explains_itself() -> None:
    commands = list(app.registered_commands)
    for group in app.registered_groups:
        assert group.typer_instance is not None
        commands += group.typer_instance.registered_commands
    assert len(commands) >= 10
    assert [command for command in commands if not (command.callback or int).__doc__] == []


def test_make_help_names_every_target() -> None:
    text = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: ((?:.*\\\n)*.*)$", text, re.MULTILINE)
    assert phony
    explained = re.findall(r"^([a-z-]+):.*## ", text, re.MULTILINE)
    assert explained == phony[1].replace("\\", "").split()


def test_ci_runs_make_test() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert "exec make test\n" in script.read_text()


def test_stack_state_is_json_that_another_process_can_read(tmp_path: Path) -> None:
    addresses = Addresses("b:1", "http://r", 2, 2, str(tmp_path))
    assert json.loads(json.dumps(addresses.as_dict()))["brokers"] == "b:1"
