"""A real RabbitMQ of the tests' own: private ports, data and node name, loopback alone."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

import pytest
from kombu import Connection

from placet.dev.embedded import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Debian's scripts; what it has in /usr/sbin changes the user and the folder
DEBIAN = Path("/usr/lib/rabbitmq/bin")
START_SECONDS = 60
# tests that are killed leave no server behind, where util-linux is
WITH_ITS_PARENT = ("setpriv", "--pdeathsig", "KILL") if shutil.which("setpriv") else ()
NOT_INSTALLED = (
    "rabbitmq: rabbitmq-server and epmd are not installed (Debian: apt-get install rabbitmq-server)"
)


class RabbitMQ:
    """A broker that can be killed and started again, on its ports and with its data."""

    def __init__(self, folder: Path, scripts: Path, epmd_port: int, env: Mapping[str, str]) -> None:
        self._scripts = scripts
        self._log = folder / "output.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port = free_port()
        user, password = (env.get(f"RABBITMQ_DEFAULT_{name}", "guest") for name in ("USER", "PASS"))
        self.url = f"amqp://{user}:{password}@127.0.0.1:{port}//"
        (folder / "plugins").write_text("[].")
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("RABBITMQ_", "ERL_"))
        }
        self._env = {
            **kept,
            **env,
            "HOME": str(folder),  # of the Erlang cookie
            "ERL_EPMD_PORT": str(epmd_port),
            "RABBITMQ_NODENAME": "placet-tests@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_CONFIG_FILE": str(folder / "no"),
            "RABBITMQ_CONF_ENV_FILE": str(folder / "no"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none",
            "RUNNING_UNDER_SYSTEMD": "true",  # the script then becomes the server: one process, one pid
        }

    def start(self) -> None:
        """Start it and wait until it takes connections."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [*WITH_ITS_PARENT, self._scripts / "rabbitmq-server"],
                env=self._env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            assert self._process.poll() is None, self._log.read_text()
            assert time.monotonic() < deadline, self._log.read_text()
            time.sleep(0.05)

    def kill(self) -> None:
        """`kill -9`."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def stop(self) -> None:
        """End it as its operator would."""
        assert self._process is not None
        self.run("rabbitmqctl", "stop_app")
        self.kill()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Stop it: connections are taken, and nothing is answered."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    @contextmanager
    def impatient(self) -> Iterator[None]:
        """Let it wait one second for acknowledgements, on new connections; else it is 30 minutes."""
        self._set(consumer_timeout=1_000, channel_tick_interval=500)
        try:
            yield
        finally:
            self._set(consumer_timeout=1_800_000, channel_tick_interval=60_000)

    def _set(self, **settings: int) -> None:
        calls = [f"application:set_env(rabbit, {name}, {value})" for name, value in settings.items()]
        self.run("rabbitmqctl", "eval", ", ".join(calls) + ".")

    def close_connections(self) -> None:
        """Cut all of them, as an operator can."""
        self.run("rabbitmqctl", "close_all_connections", "cut")

    def queues(self) -> dict[str, tuple[bool, str]]:
        """All queues: whether they are durable, and their types."""
        columns = ("name", "durable", "type")
        told = self.run("rabbitmqctl", "list_queues", "--silent", "--formatter", "json", *columns)
        return {one["name"]: (one["durable"], one["type"]) for one in json.loads(told)}

    def run(self, program: str, *args: str) -> str:
        """Run one of its programs, which must succeed; what it printed."""
        command = [str(self._scripts / program), *args]
        return subprocess.check_output(command, env=self._env, timeout=START_SECONDS).decode()

    def _answers(self) -> bool:
        with Connection(self.url, connect_timeout=5) as connection:
            try:
                connection.connect()
            except OSError:
                return False
            return True


@contextmanager
def rabbitmq_server(folder: Path, env: Mapping[str, str] = MappingProxyType({})) -> Iterator[RabbitMQ]:
    """Run one, with `env` besides; where it is not installed a test is skipped, and fails in CI."""
    found, epmd = shutil.which("rabbitmq-server"), shutil.which("epmd")
    scripts = DEBIAN if DEBIAN.is_dir() else Path(found).resolve().parent if found else None
    if scripts is None or epmd is None:
        if os.environ.get("CI") == "true":
            pytest.fail(NOT_INSTALLED)
        pytest.skip(NOT_INSTALLED)
    port = free_port()
    with ExitStack() as stack:
        # Erlang's name server, which would otherwise be started as a daemon that stays
        names = subprocess.Popen([*WITH_ITS_PARENT, epmd, "-address", "127.0.0.1", "-port", str(port)])
        stack.callback(names.wait)
        stack.callback(names.kill)
        server = RabbitMQ(folder, scripts, port, env)
        stack.callback(server.kill)
        server.start()
        yield server
