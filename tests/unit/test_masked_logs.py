"""What is logged while a run with PII rules is under way, with structlog and with Python's `logging`."""

from __future__ import annotations

import io
import logging
from typing import TYPE_CHECKING

import pytest
import structlog

from placet.logs import configure_logs, logs_masked, mask_logging
from placet.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

SECRET = "jane@example.com"  # noqa: S105 - no one's


@pytest.fixture(autouse=True)
def lines() -> Iterator[io.StringIO]:
    """As in a worker, but for where it writes."""
    plain = logging.getLogRecordFactory()
    configure_logs(Settings(log_format="json"))
    out = io.StringIO()
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(out), cache_logger_on_first_use=False)
    mask_logging()
    yield out
    logging.setLogRecordFactory(plain)
    structlog.reset_defaults()


def hide(text: str) -> str:
    return text.replace(SECRET, "***")


def fail() -> None:
    raise ValueError(f"no {SECRET}")


def test_structlogs_lines_and_tracebacks_are_masked(lines: io.StringIO) -> None:
    log = structlog.get_logger("placet")
    with logs_masked(hide):
        try:
            fail()
        except ValueError:
            log.exception("run.failed", why=f"for {SECRET}")
    out = lines.getvalue()
    assert SECRET not in out
    assert '"why": "for ***"' in out
    assert "ValueError: no ***" in out


def test_lines_and_tracebacks_of_other_libraries_are_masked(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("library")
    with logs_masked(hide):
        try:
            fail()
        except ValueError:
            log.exception("about %s", SECRET)
    log.warning("about %s", SECRET)
    first, second = caplog.records
    assert SECRET not in logging.Formatter().format(first)
    assert "ValueError: no ***" in logging.Formatter().format(first)
    assert second.getMessage() == f"about {SECRET}"
