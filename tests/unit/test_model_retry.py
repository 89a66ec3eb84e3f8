"""Model retry in a run, the real clients against a local server; each drive stands for another process."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from driver import HELLO, Clock, Driver, InThread
from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware as Stock
from langchain_core.exceptions import ModelRateLimitError
from langgraph.checkpoint.memory import InMemorySaver
from wire import Reply, WireServer

from placet.middleware import ModelRetryMiddleware, get_retryable, stamp_retryable
from placet.middleware.retry.retryable import model_may_retry, retry_after_seconds
from placet.middleware.testing import ScriptedModel, Step

if TYPE_CHECKING:
    from collections.abc import Iterator

PROVIDERS = pytest.mark.parametrize("provider", ["openai", "anthropic"])


@pytest.fixture
def wire() -> Iterator[WireServer]:
    with WireServer() as server:
        yield server


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def drive(model: Any, *middleware: Any) -> Driver:
    return Driver(create_agent(model, middleware=middleware, checkpointer=InMemorySaver()))


def retry(**options: Any) -> ModelRetryMiddleware:
    return ModelRetryMiddleware(**{"initial_delay": 0, **options})


def model_of(wire: WireServer, provider: str) -> Any:
    return getattr(wire, provider)()


@PROVIDERS
@pytest.mark.parametrize("reply", [Reply(status=500), Reply(status=429), Reply(breaks=True)])
async def test_what_may_pass_is_tried_again(wire: WireServer, provider: str, reply: Reply) -> None:
    wire.script = [reply, reply, Reply("here")]
    messages = await drive(model_of(wire, provider), retry()).go(HELLO)
    assert (messages[-1].text, len(wire.asked())) == ("here", 3)


@PROVIDERS
@pytest.mark.parametrize(
    "reply",
    [
        Reply(status=401),
        Reply(status=403),
        Reply(status=404),
        Reply(status=400),
        Reply("prompt is too long", status=400),
        Reply("context_length_exceeded", status=400, code="context_length_exceeded"),
        Reply(status=413),
        Reply("no money", status=429, code="insufficient_quota", kind="billing_error"),
    ],
    ids=lambda reply: f"{reply.status} {reply.text}",
)
async def test_what_will_not_pass_is_not(wire: WireServer, provider: str, reply: Reply) -> None:
    wire.script = [reply]
    with pytest.raises(Exception, match=reply.text or str(reply.status)):
        await drive(model_of(wire, provider), retry()).go(HELLO)
    assert len(wire.asked()) == 1


@PROVIDERS
@pytest.mark.parametrize("as_date", [False, True])
async def test_retry_after_is_obeyed(wire: WireServer, provider: str, clock: Clock, *, as_date: bool) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    dates = {"retry-after": format_datetime(now + timedelta(seconds=120), usegmt=True)}
    headers = dates | {"date": format_datetime(now, usegmt=True)} if as_date else {"retry-after": "120"}
    wire.script = [Reply(status=429, headers=headers), Reply("here")]
    driver = drive(model_of(wire, provider), retry())
    await driver.go(HELLO)
    assert driver.waiting[0].value["due"] - clock.ms == 120_000
    clock.move(117)
    await driver.go()
    assert len(wire.asked()) == 1
    clock.move(3)
    assert (await driver.go())[-1].text == "here"


async def test_all_waits_together_are_capped(wire: WireServer, clock: Clock) -> None:
    wire.script = [Reply(status=429, headers={"retry-after": "40"})]
    driver = drive(wire.openai(), retry(max_retries=9, max_total_wait=100))
    messages = await driver.go(HELLO)
    while driver.waiting:
        clock.move(40)
        messages = await driver.go()
    assert (clock.ms, len(wire.asked())) == (1_080_000, 3)
    assert "failed after 3 attempts" in messages[-1].text
    # longer than it may be: not a call, and not an earlier one either
    wire.script = [Reply(status=429, headers={"retry-after": "101"})]
    driver = drive(wire.openai(), retry(max_total_wait=100, on_failure="error"))
    with pytest.raises(ModelRateLimitError):
        await driver.go(HELLO)


async def test_a_failure_in_place_of_an_answer_says_that_it_is_one(wire: WireServer) -> None:
    wire.script = [Reply(status=500)]
    last = (await drive(wire.openai(), retry()).go(HELLO))[-1]
    assert "Model call failed after 3 attempts with OpenAIAPIError" in last.text
    assert last.response_metadata["placet_failure"] == {"type": "OpenAIAPIError", "attempts": 3}


async def test_attempts_that_die_with_their_worker_count(wire: WireServer) -> None:
    """Cut off without a word, as by `kill -9`: nothing takes the attempt back."""
    wire.script = [Reply(status=500), Reply("here")]
    driver = drive(wire.openai(), retry(on_failure="error"))
    taken_back = driver.shared.withdraw_try

    async def dead(*_: Any, **__: Any) -> None:
        pass

    driver.shared.withdraw_try = dead  # type: ignore[method-assign]
    wire.script = [Reply(silent=True)]
    for times in range(1, 4):
        await driver.die(HELLO if times == 1 else None, when=lambda: len(wire.asked()) == times)  # noqa: B023
    driver.shared.withdraw_try = taken_back  # type: ignore[method-assign]
    with pytest.raises(Exception, match="stopped in the last attempt"):
        await driver.go()
    assert len(wire.asked()) == 3


async def test_an_attempt_that_is_stopped_does_not_count(wire: WireServer) -> None:
    wire.script = [Reply(silent=True)]
    driver = drive(wire.openai(), retry(max_retries=0))
    await driver.die(HELLO, when=lambda: len(wire.asked()) == 1)
    wire.script = [Reply("here")]
    assert (await driver.go())[-1].text == "here"


async def test_a_caller_that_is_no_retry_of_ours_begins_anew() -> None:
    """LangChain's own retry around ours: three attempts for each of its own."""
    asked = 0

    def answer(_: Any) -> Step:
        nonlocal asked
        asked += 1
        return Step(error=ConnectionError("down"))

    class Outer(Stock[Any, Any]):
        pass

    outer = Outer(max_retries=1, initial_delay=0, on_failure="error")
    driver = drive(ScriptedModel(script=[answer]), outer, retry(on_failure="error"))
    with pytest.raises(ConnectionError):
        await driver.go(HELLO)
    assert asked == 6


async def test_a_sync_agent_tries_again_in_its_thread(wire: WireServer, clock: Clock) -> None:
    wire.script = [Reply(status=500), Reply(status=429, headers={"retry-after": "5"}), Reply("here")]
    driver = drive(wire.openai(), retry())
    driver.agent = InThread(driver.agent)
    await driver.go(HELLO)
    assert (len(driver.waiting), len(wire.asked())) == (1, 2)
    clock.move(5)
    assert (await driver.go())[-1].text == "here"


def test_marks() -> None:
    error = ValueError("no")
    assert get_retryable(error) is None
    assert stamp_retryable(error, True) is error
    assert get_retryable(error) is True
    assert model_may_retry(error)
    assert not model_may_retry(stamp_retryable(error, False))


def response(status: int = 503, headers: dict[str, str] | None = None) -> httpx.HTTPStatusError:
    answer = httpx.Response(status, headers=headers or {})
    return httpx.HTTPStatusError("no", request=httpx.Request("POST", "http://h"), response=answer)


def test_retry_after_of_botocore() -> None:
    class ClientError(Exception):
        response = {"ResponseMetadata": {"HTTPHeaders": {"retry-after": "7"}}}  # noqa: RUF012 - as botocore's

    assert retry_after_seconds(ClientError()) == 7


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        (
            {"retry-after": "Wed, 21 Oct 2015 07:30:00 GMT", "date": "Wed, 21 Oct 2015 07:28:00 GMT"},
            120.0,
        ),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
    ],
)
def test_retry_after_of_any_response(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after_seconds(response(headers=headers)) == seconds


@pytest.mark.parametrize(
    ("status", "again"), [(401, False), (404, False), (413, False), (408, True), (503, True)]
)
def test_status_of_a_client_of_no_known_class(status: int, *, again: bool) -> None:
    assert model_may_retry(response(status)) is again
