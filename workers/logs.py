"""Structured logs: events are `noun.past_participle`, never with tool arguments or tokens."""

from __future__ import annotations

import logging
import sys
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, MutableMapping

    import structlog

    from .settings import Settings

_settings: Settings | None = None
_mask: ContextVar[Callable[[str], str] | None] = ContextVar("placet_log_mask", default=None)


def configure_logs(settings: Settings) -> None:
    """Write Placet's own log lines to stderr, as text for people or as JSON lines."""
    import structlog  # noqa: PLC0415 - a command that logs nothing does not load it

    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    last: structlog.typing.Processor = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    if settings.log_format == "json":
        last = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*shared, structlog.processors.format_exc_info, _masked, last],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )


@contextmanager
def logs_masked(mask: Callable[[str], str] | None) -> Iterator[None]:
    """Put the texts of what is logged within through `mask`, tracebacks too."""
    token = _mask.set(mask)
    try:
        yield
    finally:
        _mask.reset(token)


def _masked(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    if (mask := _mask.get()) is not None:
        for name, value in event.items():
            if isinstance(value, str) and name not in ("event", "timestamp", "level"):
                event[name] = mask(value)
    return event


def mask_logging() -> None:
    """Mask what tools and libraries log with Python's `logging` while a run with rules is under way."""
    plain = logging.getLogRecordFactory()

    def masked(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = plain(*args, **kwargs)
        if (mask := _mask.get()) is not None:
            try:
                record.msg, record.args = mask(record.getMessage()), ()
            except (TypeError, ValueError, KeyError) as error:  # whoever logs has made a mistake
                record.msg, record.args = f"a message that cannot be formatted: {type(error).__name__}", ()
            if record.exc_info:
                # a formatter takes it for what another one has made
                record.exc_text = mask(logging.Formatter().formatException(record.exc_info))
        return record

    logging.setLogRecordFactory(masked)


def configure_logs_later(settings: Settings) -> None:
    """Do so when `logger` is first called: most commands of the command line log nothing."""
    global _settings  # noqa: PLW0603 - logging is the process's own matter
    _settings = settings


def logger() -> Any:
    """Placet's logger, for what seldom logs and is loaded often."""
    global _settings  # noqa: PLW0603
    import structlog  # noqa: PLC0415

    if _settings is not None:
        configure_logs(_settings)
        _settings = None
    return structlog.get_logger("placet")
