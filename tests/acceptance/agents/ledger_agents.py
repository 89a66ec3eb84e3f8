"""Agents whose tools do what must not be done twice; acceptance_effects.py says what each does."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from acceptance_effects import barrier, logged
from langchain.agents import create_agent
from langchain.agents.middleware import ToolRetryMiddleware
from langchain_core.tools import tool
from langgraph.types import interrupt
from tool_agents import calling, gate, mail, paint

from placet.middleware import NOT_DONE, current_idempotency_key, idempotent, side_effect
from placet.middleware.testing import Call

if TYPE_CHECKING:
    from placet.middleware import UnknownCall


async def _effect(name: str, order: str) -> None:
    with logged(name, order=order, key=current_idempotency_key()):
        pass
    await barrier(name)


@tool
async def refund(order: str) -> str:
    """Refund an order."""
    await _effect("refund", order)
    return f"refunded {order}"


@tool
@side_effect(on_unknown="fail")
async def wire(order: str) -> str:
    """Wire an order's money."""
    await _effect("wire", order)
    return f"wired {order}"


def _log() -> str:
    return Path(os.environ["PLACET_TEST_LOG"]).read_text()


def _charged(call: UnknownCall) -> object:
    if any(" end charge " in line and call.idempotency_key in line for line in _log().splitlines()):
        return f"found the charge of {call.args['order']}"
    return NOT_DONE


@side_effect(verify=_charged)
@tool
async def charge(order: str) -> str:
    """Charge an order."""
    await _effect("charge", order)
    return f"charged {order}"


@tool("refund")
async def flaky_refund(order: str) -> str:
    """Refund an order, at the second try."""
    with logged("try", order=order, key=current_idempotency_key()):
        if _log().count(" start try ") == 1:
            raise ConnectionError("no line")
    await _effect("refund", order)
    return f"refunded {order}"


@tool("refund")
async def asking_refund(order: str) -> str:
    """Refund a part of an order: a person says how much."""
    cents = interrupt("How much?")
    await _effect("refund", order)
    return f"refunded {cents} of {order}"


_refund = Call("refund", {"order": "A-1"})
_mail = Call("mail", {"to": "bob", "text": "hello"})
refunds = create_agent(calling(_refund), tools=[refund])
gated_refunds = create_agent(
    calling(_refund, _mail), tools=[refund, mail], middleware=[gate("refund", "mail", mode="per_call")]
)
asking_refunds = create_agent(calling(_refund), tools=[asking_refund])
stopped_refunds = create_agent(calling(_refund), tools=[refund], interrupt_before=["tools"])
stopped_question = create_agent(
    calling(Call("paint", {"thing": "door"})), tools=[paint], interrupt_before=["tools"]
)
wires = create_agent(calling(Call("wire", {"order": "A-1"})), tools=[wire])
charges = create_agent(calling(Call("charge", {"order": "A-1"})), tools=[charge])
retried_refunds = create_agent(
    calling(_refund),
    tools=[flaky_refund],
    middleware=[ToolRetryMiddleware(max_retries=2, initial_delay=0, retry_on=(ConnectionError,))],
)


@tool
@idempotent
async def delegate() -> str:
    """Have the refunds made."""
    out = await refunds.ainvoke({"messages": [{"role": "user", "content": "refund"}]})
    return str(out["messages"][-1].text)


delegated_refunds = create_agent(calling(Call("delegate")), tools=[delegate])
