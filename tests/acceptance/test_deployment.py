"""What deploys Placet, followed as its README says: the compose file, the Dockerfile, their processes."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from deployment import ROOT, Deployment, Image, build, compose, services, steps, tool
from rabbitmq import rabbitmq_server
from redis import Redis

from fleet import PATIENCE, wait_until
from placet.settings import Settings
from placet.worker.process import LINGER_SECONDS, STOP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

README = (ROOT / "README.md").read_text().partition("## On Docker Compose\n")[2].partition("\n## ")[0]
LINES = re.findall(r"^ {4}(docker compose .*)$", README, re.MULTILINE)
ALL = ("--profile", "*")


def block(language: str, containing: str) -> str:
    """The one code block of the README's section that contains this."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    (found,) = (code for code in blocks if containing in code)
    return str(found)


def line(containing: str) -> list[str]:
    """The words, behind `docker compose`, of the one line of the README's section that contains this."""
    (found,) = (line for line in LINES if containing in line)
    return shlex.split(found)[2:]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout with the README's `.env`, and the agents that it names beside it."""
    folder = tmp_path / "placet"
    folder.mkdir()
    shutil.copy(ROOT / "docker-compose.yml", folder)
    (folder / ".env").write_text(block("sh", "AGENTS="))
    shutil.copytree(ROOT / "examples" / "refund", tmp_path / "my-agents")
    return folder


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    root = tmp_path_factory.mktemp("image")
    yield build(root)
    shutil.rmtree(root)


def test_it_is_valid_as_it_comes(tmp_path: Path) -> None:
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    assert set(services(tmp_path)) == {"redis", "worker"}
    assert set(services(tmp_path, *ALL)) == {"redis", "worker", "rabbitmq"}


def test_nothing_listens_beyond_the_machine(project: Path) -> None:
    for service in services(project, *ALL).values():
        assert {port["host_ip"] for port in service.get("ports", ())} <= {"127.0.0.1"}
        assert "network_mode" not in service


def test_each_service_is_watched_and_started_again(project: Path) -> None:
    for service in services(project, *ALL).values():
        assert service["restart"] == "unless-stopped"
        assert service["healthcheck"]["test"][0] == "CMD"


def test_a_worker_has_the_time_to_hand_its_segments_over(project: Path) -> None:
    given = services(project)["worker"]["stop_grace_period"]
    assert float(given.removesuffix("s")) > Settings().grace_seconds + STOP_SECONDS + LINGER_SECONDS


def test_workers_can_be_scaled(project: Path) -> None:
    """What names or publishes a container can be there once only."""
    worker = services(project)["worker"]
    assert not {"container_name", "ports", "hostname"} & worker.keys()


def test_every_setting_reaches_the_workers_from_dot_env(project: Path) -> None:
    names = {f"PLACET_{name.upper()}" for name in Settings.__slots__} - {"PLACET_REDIS_URL"}
    (project / ".env").write_text("".join(f"{name}=it is {name}\n" for name in names))
    given = services(project)["worker"]["environment"]
    assert given == {"PLACET_REDIS_URL": "redis://redis:6379/0"} | {name: f"it is {name}" for name in names}


def test_rabbitmq_is_a_profile(project: Path) -> None:
    with (project / ".env").open("a") as env:
        env.write(block("sh", "COMPOSE_PROFILES="))
    found = services(project)
    own, url = found["rabbitmq"]["environment"], found["worker"]["environment"]["PLACET_BROKER_URL"]
    login = f"{own['RABBITMQ_DEFAULT_USER']}:{own['RABBITMQ_DEFAULT_PASS']}"
    assert url == f"amqp://{login}@rabbitmq:5672//"
    assert found["worker"]["depends_on"]["rabbitmq"]["condition"] == "service_healthy"


def test_an_image_of_ones_own(project: Path) -> None:
    (project / "docker-compose.override.yml").write_text(block("yaml", "services:"))
    worker = services(project)["worker"]
    assert (worker["image"], worker.get("volumes")) == ("my-agents", None)
    assert worker["build"]["context"] == str(project.parent / "my-agents")
    assert block("dockerfile", "").startswith(f"FROM {services(ROOT)['worker']['image']}\n")


@pytest.mark.parametrize("words", LINES)
def test_the_readmes_lines_are_understood(project: Path, words: str) -> None:
    """As far as the client comes alone: it knows the command, its options and the services."""
    told = compose(project, *shlex.split(words)[2:])
    assert "failed to connect to the docker API" in told.stderr, told.stderr


def test_the_dockerfile_has_no_findings() -> None:
    told = subprocess.run(
        [tool("hadolint"), ROOT / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (told.returncode, told.stdout) == (0, "")


def test_the_context_holds_what_is_copied_and_nothing_else() -> None:
    copied = {name for step, flags, value in steps() if step == "COPY" and not flags for name in value[:-1]}
    rules = (ROOT / ".dockerignore").read_text().splitlines()
    assert {rule for rule in rules if not rule.startswith("#")} == {
        "*",
        "**/__pycache__",
        *(f"!{name}" for name in copied),
    }


def test_the_image_runs_without_root() -> None:
    *_, (user,) = (value for step, _, value in steps() if step == "USER")
    uid, gid = map(int, user.split(":"))
    assert uid > 0
    assert gid > 0


def run(deployment: Deployment, containing: str, *more: str, put: str = "") -> list[Any]:
    """Run one of the README's `exec` lines; what it printed, if `more` says `--json`."""
    _, service, *command = line(containing)
    told = deployment.execute(service, [put if word == "7k2m…" else word for word in command] + [*more])
    assert told.returncode == 0, (told, deployment.logs())
    return [json.loads(found) for found in told.stdout.splitlines()] if "--json" in more else []


async def start_redis(deployment: Deployment) -> subprocess.Popen[bytes]:
    redis = deployment.start("redis")

    async def healthy() -> bool:
        assert redis.poll() is None, deployment.logs()
        return deployment.healthy("redis")

    await wait_until(healthy)
    with Redis(port=deployment.port) as server:
        assert server.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
        assert server.info("persistence")["aof_enabled"] == 1
    return redis


async def start_workers(deployment: Deployment) -> list[subprocess.Popen[bytes]]:
    """As many as the README says."""
    count = int(line("--scale")[-1].removeprefix("worker="))
    assert count > 1
    workers = [deployment.start("worker") for _ in range(count)]

    async def all_alive() -> bool:
        assert all(worker.poll() is None for worker in workers), deployment.logs()
        checks = run(deployment, "doctor", "--json")
        return any(check["found"].startswith(f"{count} alive") for check in checks)

    await wait_until(all_alive)
    return workers


async def pause(deployment: Deployment) -> str:
    """Enqueue a run; the id of what it asks."""
    run(deployment, "enqueue")

    async def asked() -> list[Any]:
        return run(deployment, "approvals list", "--json")

    [approval] = await wait_until(asked)
    return str(approval["id"])


async def approve(deployment: Deployment, approval_id: str) -> None:
    """Approve it and wait for the run's end."""
    run(deployment, "placet approve", put=approval_id)

    async def ended() -> bool:
        [found] = run(deployment, "runs list", "--json")
        assert found["status"] in ("pending", "running", "success"), found
        return bool(found["status"] == "success")

    await wait_until(ended)


async def test_a_deployment_as_the_readme_says(project: Path, image: Image) -> None:
    """A pending approval outlives Redis, killed and started again on its volume."""
    with Deployment(services=services(project), image=image, folder=project.parent) as deployment:

        async def worker_healthy() -> bool:
            return deployment.healthy("worker")

        redis = await start_redis(deployment)
        assert not deployment.healthy("worker")
        workers = await start_workers(deployment)
        assert deployment.healthy("worker")
        approval_id = await pause(deployment)

        redis.kill()
        redis.wait()
        assert not deployment.healthy("redis")
        assert not deployment.healthy("worker")
        await start_redis(deployment)
        assert [one["id"] for one in run(deployment, "approvals list", "--json")] == [approval_id]

        await approve(deployment, approval_id)
        await wait_until(worker_healthy)
        for worker in workers:
            worker.terminate()
            assert worker.wait(PATIENCE) == 0, deployment.logs()


async def test_a_deployment_with_the_rabbitmq_profile(project: Path, image: Image) -> None:
    """Its environment and its health check, on a real server, through which workers are woken."""
    with (project / ".env").open("a") as env:
        env.write(block("sh", "COMPOSE_PROFILES="))
    found = services(project)
    (folder := project.parent / "rabbitmq").mkdir()
    with (
        rabbitmq_server(folder, found["rabbitmq"]["environment"]) as broker,
        Deployment(
            services=found, image=image, folder=project.parent, rabbitmq_port=broker.port
        ) as deployment,
    ):
        kind, *check = found["rabbitmq"]["healthcheck"]["test"]
        assert kind == "CMD"
        broker.run(*check)
        await start_redis(deployment)
        await start_workers(deployment)
        await approve(deployment, await pause(deployment))
        (told,) = (one for one in run(deployment, "doctor", "--json") if one["name"] == "broker")
        assert (told["status"], told["found"]) == (
            "ok",
            f"amqp://placet:***@127.0.0.1:{broker.port}//: placet 0 waiting",
        )
