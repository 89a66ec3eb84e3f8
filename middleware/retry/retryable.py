"""What an exception says of itself: whether another try may help, whose fault it is, how long to wait."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import CancelledError
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

from langchain_core.exceptions import ContextOverflowError, ModelError, ModelInvalidRequestError
from langgraph.errors import NodeCancelledError

from placet import errors

E = TypeVar("E", bound=BaseException)

_STAMP = "__placet_retryable__"
_FINAL_STATUS = {400, 401, 402, 403, 404, 413, 422}
_AT_FAULT_STATUS = {400, 413, 422}
_NO_QUOTA = {
    "insufficient_quota",
    "billing_hard_limit_reached",
    "billing_not_active",
    "billing_error",
    "credit_balance_too_low",
}
_AGAINST_POLICY = {"content_filter", "content_policy_violation"}
_PARTS = 8
"""How deep the data of a provider's error is looked into."""


def stamp_retryable(error: E, retryable: bool) -> E:
    """Mark an exception: another try may help, or never will. Returns it, to be raised.

    The default of `ToolRetryMiddleware` and `ModelRetryMiddleware` obeys the mark, whatever class it is.
    """
    error.__dict__[_STAMP] = bool(retryable)
    return error


def get_retryable(error: BaseException) -> bool | None:
    """What an exception was marked with; None if it was not."""
    found = error.__dict__.get(_STAMP)
    return found if isinstance(found, bool) else None


def tool_may_retry(error: Exception) -> bool:
    """Decide by the mark, else by LangChain's `is_retryable` or Placet's base class, else yes."""
    if (stamp := get_retryable(error)) is not None:
        return stamp
    if isinstance(error, CancelledError | NodeCancelledError) or _codes(error) & _NO_QUOTA:
        return False
    if isinstance(error, errors.PermanentError):  # unless it only stands for how another call ended
        return isinstance(error, errors.EarlierToolError | errors.AttemptLost)
    return error.is_retryable if isinstance(error, ModelError) else True


def model_may_retry(error: Exception) -> bool:
    """Decide as for tools; a client's error of no known class also by its HTTP status."""
    if get_retryable(error) is None and _status(error) in _FINAL_STATUS:
        return False
    return tool_may_retry(error)


def request_at_fault(error: Exception) -> bool:
    """Whether it is the request that was refused, so that another model is likely to refuse it too."""
    if isinstance(error, ModelInvalidRequestError | ContextOverflowError):
        return True
    return _status(error) in _AT_FAULT_STATUS or bool(_codes(error) & _AGAINST_POLICY)


def retry_after_seconds(error: BaseException) -> float | None:
    """How long the response asks to wait (`Retry-After`, RFC 9110: seconds or a date); None if it does not.

    A date is compared with the response's own, or else with this machine's clock.
    """
    headers = _headers(error)
    if (milliseconds := _number(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1000
    asked = headers.get("retry-after", "").strip()
    if (seconds := _number(asked)) is not None:
        return seconds
    until = _time(asked)
    if until is None:
        return None
    now = _time(headers.get("date", ""))
    return max(0.0, until - (time.time() if now is None else now))


def _number(text: str | None) -> float | None:
    try:
        found = float(text or "")
    except ValueError:
        return None
    return found if 0 <= found < float("inf") else None


def _time(text: str) -> float | None:
    try:
        return parsedate_to_datetime(text).timestamp()
    except (ValueError, OverflowError):
        return None


def _status(error: BaseException) -> int | None:
    response = getattr(error, "response", None)
    found = getattr(error, "status_code", None) or getattr(response, "status_code", None)
    return found if isinstance(found, int) else None


def _headers(error: BaseException) -> dict[str, str]:
    """The response's headers, in lower case: of httpx, requests, what is built on them, or botocore."""
    response = getattr(error, "response", None)
    headers = getattr(response, "headers", None)
    if isinstance(response, dict):
        headers = response.get("ResponseMetadata", {}).get("HTTPHeaders")
    if not isinstance(headers, Mapping):
        return {}
    return {str(name).lower(): str(value) for name, value in headers.items()}


def _codes(error: BaseException) -> set[str]:
    """Codes and types that a provider's error names, in itself or in its body."""
    found = {getattr(error, name, None) for name in ("code", "type")}
    body: Any = getattr(error, "body", None)
    for _ in range(_PARTS):
        if not isinstance(body, dict):
            break
        found |= {body.get(name) for name in ("code", "type") if isinstance(body.get(name), str)}
        body = body.get("error")
    return {one for one in found if isinstance(one, str)}
