"""Child processes: each in a session of its own, read line by line, started again when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    OnLine = Callable[[int, str], None]

_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None
_PR_SET_PDEATHSIG = 1
_LONGEST_LINE = 1 << 16
_STEPS = (signal.SIGTERM, signal.SIGQUIT, signal.SIGKILL)


class Child:
    """One running child; a terminal's Ctrl-C reaches its parent alone, which decides what to do.

    On Linux the child gets `death_signal` when its parent dies, however it dies.
    """

    def __init__(self, process: asyncio.subprocess.Process, on_line: OnLine | None) -> None:
        self._process = process
        self._reader = asyncio.create_task(self._read(on_line)) if on_line else None
        self.pid = process.pid

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        on_line: OnLine | None = None,
        pass_fds: Sequence[int] = (),
        death_signal: signal.Signals = signal.SIGTERM,
    ) -> Self:
        """Start `command` with `env` added to the environment.

        `on_line(pid, line)` gets what it prints, both streams; without it they are inherited.
        """
        parent = os.getpid()

        def die_with_parent() -> None:
            if _LIBC is not None:
                _LIBC.prctl(_PR_SET_PDEATHSIG, int(death_signal), 0, 0, 0)
                if os.getppid() != parent:
                    os._exit(1)

        process = await asyncio.create_subprocess_exec(
            *command,
            env={**os.environ, **(env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE if on_line else None,
            stderr=subprocess.STDOUT if on_line else None,
            start_new_session=True,
            pass_fds=pass_fds,
            preexec_fn=die_with_parent,  # safe beside threads: it calls into libc alone, loaded by now
        )
        return cls(process, on_line)

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.returncode is None

    def signal(self, which: signal.Signals) -> None:
        """Send a signal, SIGKILL to all its session; a child that has ended is left alone."""
        if self.running:
            with contextlib.suppress(ProcessLookupError):
                if which is signal.SIGKILL:
                    os.killpg(self.pid, which)
                else:
                    self._process.send_signal(which)

    async def wait(self) -> int:
        """Wait for its end; the exit status, negative for a signal."""
        status = await self._process.wait()
        if self._reader is not None:
            # a grandchild may hold the pipe open: what it prints is not waited for
            await asyncio.wait({self._reader}, timeout=1)
            self._reader.cancel()
        return status

    async def stop(self, *, grace_seconds: float) -> int:
        """Ask it to end, kill it after the grace time; the exit status."""
        self.signal(signal.SIGTERM)
        try:
            return await asyncio.wait_for(self.wait(), grace_seconds)
        except TimeoutError:
            pass
        finally:  # too slow, or nobody waits any more
            self.signal(signal.SIGKILL)
        return await self.wait()

    async def _read(self, on_line: OnLine) -> None:
        stream = self._process.stdout
        if stream is None:
            return
        rest = b""
        while chunk := await stream.read(_LONGEST_LINE):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > _LONGEST_LINE:
                lines, rest = [*lines, rest], b""
            for line in lines:
                on_line(self.pid, line.decode(errors="replace").rstrip("\r"))
        if rest:
            on_line(self.pid, rest.decode(errors="replace"))


class Supervisor:
    """Keeps `commands` alive, one child each, until it is told to end.

    A child that dies is started again after `delay_seconds`, doubled up to 30 s while children live shorter
    than `settled_seconds`. A failure in the first `settled_seconds` is a mistake in the set-up: all end.
    """

    def __init__(
        self,
        *,
        commands: Sequence[Sequence[str]],
        env: Mapping[str, str] | None = None,
        on_line: OnLine | None = None,
        say: Callable[[str], None],
        death_signal: signal.Signals = signal.SIGTERM,
        settled_seconds: float = 10.0,
        delay_seconds: float = 0.5,
    ) -> None:
        self._commands = commands
        self._env = env
        self._on_line = on_line
        self._say = say
        self._death_signal = death_signal
        self._settled_seconds = settled_seconds
        self._delay_seconds = delay_seconds
        self._began = time.monotonic()
        self._children: dict[int, Child] = {}
        self._steps = 0
        self._ending = asyncio.Event()
        self._status = 0

    @property
    def pids(self) -> list[int]:
        """The children that run now."""
        return [child.pid for child in self._children.values() if child.running]

    async def run(self) -> int:
        """Keep the children alive; 0 when told to end, else the exit status of the one that failed."""
        await asyncio.gather(*(self._keep(index) for index in range(len(self._commands))))
        return self._status

    def end(self) -> None:
        """Ask all children to end: warm (SIGTERM), called again cold (SIGQUIT), then SIGKILL."""
        step = _STEPS[min(self._steps, len(_STEPS) - 1)]
        self._steps += 1
        self._ending.set()
        for child in self._children.values():
            child.signal(step)

    async def _keep(self, index: int) -> None:
        delay = self._delay_seconds
        while not self._ending.is_set():
            began = time.monotonic()
            child = await Child.start(
                self._commands[index], env=self._env, on_line=self._on_line, death_signal=self._death_signal
            )
            self._children[index] = child
            if self._ending.is_set():  # told while it was being started
                child.signal(_STEPS[0])
            status = await child.wait()
            if self._ending.is_set():
                return
            lived = time.monotonic() - began
            if status > 0 and time.monotonic() - self._began < self._settled_seconds:
                self._say(f"worker {child.pid} could not start (exit status {status})")
                self._status = status
                self.end()
                return
            delay = self._delay_seconds if lived >= self._settled_seconds else min(delay * 2, 30.0)
            self._say(f"worker {child.pid} ended (exit status {status}), another starts in {delay:g} s")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._ending.wait(), delay)


@contextlib.contextmanager
def on_stop_signal(call: Callable[[], object]) -> Iterator[None]:
    """Call `call` in the running loop for every SIGINT, SIGTERM and SIGHUP."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for which in signals:
        loop.add_signal_handler(which, call)
    try:
        yield
    finally:
        for which in signals:
            loop.remove_signal_handler(which)
