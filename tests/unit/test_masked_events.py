"""Events of an agent with PII rules: what is cut over chunks never appears, and the order stays."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langchain_core.messages.tool import tool_call_chunk

from placet.agents.masked_events import MaskedEvents
from placet.agents.masks import Masks, check_masks, masks_of
from placet.encoding import dump_shown
from placet.errors import InvalidAgent
from placet.middleware import HumanInTheLoopMiddleware, PIIMiddleware
from placet.middleware.testing import ScriptedModel

MAIL = "jane.doe@example.com"
MASK = "[REDACTED_EMAIL]"
LONG = "some words that say nothing at all, " * 12


class Written:
    """Takes what is written, in the place of an `EventWriter`."""

    def __init__(self) -> None:
        self.events: list[tuple[str, Any]] = []

    def add(self, kind: str, ns: Any, data: Any) -> None:  # noqa: ARG002
        self.events.append((kind, json.loads(dump_shown(data))))

    def progressed(self) -> None:
        pass

    @property
    def text(self) -> str:
        return json.dumps(self.events)

    def joined(self, message_id: str = "m") -> str:
        found = [data["message"] for kind, data in self.events if kind == "messages"]
        return "".join(m.get("content", "") for m in found if m["id"] == message_id)


def rule(**chosen: Any) -> PIIMiddleware:
    return PIIMiddleware("email", **(chosen or {"apply_to_output": True}))


def events(*rules: Any) -> tuple[Written, MaskedEvents]:
    written = Written()
    return written, MaskedEvents(written, Masks(rules or (rule(),)))  # type: ignore[arg-type]


def chunk(content: Any = "", *, last: bool = False, name: str = "m", **more: Any) -> AIMessageChunk:
    return AIMessageChunk(content=content, id=name, chunk_position="last" if last else None, **more)


def cuts(text: str, size: int) -> list[str]:
    return [text[n : n + size] for n in range(0, len(text), size)]


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
@pytest.mark.parametrize("before", ["", "x ", LONG, "(" * 200])
def test_a_match_cut_over_chunks_never_appears(size: int, before: str) -> None:
    written, masked = events()
    text = f"{before}{MAIL}, {LONG}{MAIL} and {MAIL}"
    for piece in cuts(text, size):
        masked.add_message((), chunk(piece), node="model")
    masked.add_message((), chunk(last=True), node="model")
    assert written.joined() == text.replace(MAIL, MASK)
    assert len(written.events) == len(cuts(text, size)) + 1


def test_tokens_go_on_while_the_stream_does() -> None:
    written, masked = events()
    for word in LONG.split(" "):
        masked.add_message((), chunk(f"{word} "), node="model")
    assert 0 < len(LONG) + 1 - len(written.joined()) < 200


def test_a_stream_that_breaks_off_is_handed_on_at_the_end() -> None:
    written, masked = events()
    masked.add_message((), chunk(f"to {MAIL[:9]}"), node="model")
    masked.add_message((), chunk(MAIL[9:]), node="model")
    assert not written.events
    masked.flush()
    assert written.joined() == f"to {MASK}"


def test_a_node_that_has_ended_streams_no_more_and_its_update_comes_after() -> None:
    written, masked = events()
    masked.add_message((), chunk("hello", name="m"), node="model")
    masked.add_message(("other:1",), chunk(MAIL[:5], name="n"), node="model")
    masked.add("updates", (), {"model": {"messages": [AIMessage(f"hello {MAIL}", id="m")]}})
    assert [kind for kind, _ in written.events] == ["messages", "updates"]
    assert MAIL not in written.text
    masked.flush()
    assert written.joined("n") == MAIL[:5]


def test_pieces_of_calls_and_blocks_of_content_are_streams_of_their_own() -> None:
    written, masked = events()
    args = json.dumps({"to": MAIL, "n": 1})
    for left, right in zip(cuts(args, 5), cuts(f"thinking of {MAIL}".ljust(len(args)), 5), strict=True):
        masked.add_message(
            (),
            chunk(
                [
                    {"type": "reasoning", "reasoning": right, "index": 0},
                    {"type": "input_json_delta", "partial_json": left, "index": 1},
                ],
                tool_call_chunks=[tool_call_chunk(name=None, args=left, id="call_1", index=0)],
                response_metadata={"model_name": "m"},
            ),
            node="model",
        )
    masked.add_message((), chunk([], last=True), node="model")
    found = [data["message"] for _, data in written.events]
    assert "tool_calls" not in found[0]
    assert "".join(m["tool_call_chunks"][0]["args"] for m in found[:-1]) == args.replace(MAIL, MASK)
    assert "".join(m["content"][1]["partial_json"] for m in found[:-1]) == args.replace(MAIL, MASK)
    assert "".join(m["content"][0]["reasoning"] for m in found[:-1]).strip() == f"thinking of {MASK}"


def test_text_that_a_node_writes_is_a_stream_and_what_has_a_shape_is_not() -> None:
    written, masked = events()
    for left, right in pairwise(["to ", MAIL[:6], MAIL[6:], ""]):
        masked.add("custom", (), left)
        masked.add("custom", (), {"progress": right and MAIL})
    masked.add("updates", (), {"tools": None})
    assert "".join(data for kind, data in written.events if isinstance(data, str)) == f"to {MASK}"
    assert [data for _, data in written.events if isinstance(data, dict)][:3] == [
        {"progress": MASK},
        {"progress": MASK},
        {"progress": ""},
    ]


def test_values_and_updates_are_masked_and_what_names_things_is_not() -> None:
    digits = PIIMiddleware("digits", detector=r"\d{4,}", apply_to_tool_results=True)
    written, masked = events(rule(), digits)
    call = {"name": "send1234", "args": {"id": "1234", "to": MAIL}, "id": "call_1234", "type": "tool_call"}
    messages = [
        AIMessage(f"to {MAIL}", id="m1234", tool_calls=[call]),
        ToolMessage("12345", tool_call_id="call_1234", id="t1234", artifact={MAIL: 123456789012345}),
    ]
    masked.add("values", (), {"messages": messages, "note": [MAIL]})
    (_, data) = written.events[0]
    first, second = data["messages"]
    assert (first["id"], first["content"], data["note"]) == ("m1234", f"to {MASK}", [MASK])
    assert first["tool_calls"] == [call | {"args": {"id": "[REDACTED_DIGITS]", "to": MASK}}]
    assert (second["tool_call_id"], second["content"]) == ("call_1234", "[REDACTED_DIGITS]")
    assert second["artifact"] == {MASK: "[REDACTED_DIGITS]"}


def test_a_rule_for_the_input_alone_masks_what_users_wrote_and_what_is_told_of_errors() -> None:
    written, masked = events(rule(apply_to_input=True))
    masked.add_message((), chunk(MAIL[:5]), node="model")
    masked.add("values", (), {"messages": [HumanMessage(f"I am {MAIL}"), AIMessage(MAIL)]})
    found = written.events[1][1]["messages"]
    assert [message["content"] for message in found] == [f"I am {MASK}", MAIL]
    assert Masks((rule(apply_to_input=True),)).text(f"cannot reach {MAIL}") == f"cannot reach {MASK}"


def test_without_rules_events_pass_as_they_are() -> None:
    written = Written()
    message = AIMessage(MAIL)
    MaskedEvents(written, Masks(())).add("values", (), {"messages": [message]})  # type: ignore[arg-type]
    assert MAIL in written.text


def test_the_rules_of_an_agent_are_found_in_its_graph_those_of_its_subagents_too() -> None:
    inner = create_agent(ScriptedModel(script=[""]), middleware=[rule(apply_to_output=True)])

    def delegate() -> str:
        """Delegate."""
        return str(inner)

    agent = create_agent(ScriptedModel(script=[""]), [delegate])
    masks = masks_of(agent)
    assert masks.wide
    assert masks.input({"messages": [{"role": "user", "content": MAIL}]})["messages"][0]["content"] == MAIL


def test_hashes_without_a_key_are_refused_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PLACET_ENCRYPTION_KEY", raising=False)
    agent = create_agent(ScriptedModel(script=[""]), middleware=[PIIMiddleware("email", strategy="hash")])
    with pytest.raises(InvalidAgent, match=r"PLACET_ENCRYPTION_KEY: must be set, and PIIMiddleware\[email\]"):
        check_masks(agent)


def test_arguments_are_sealed_inside_the_gate_or_the_agent_does_not_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PLACET_ENCRYPTION_KEY", "k" * 32)
    parts = [HumanInTheLoopMiddleware({"delegate": True}), PIIMiddleware("email", apply_to_tool_args=True)]
    check_masks(create_agent(ScriptedModel(script=[""]), middleware=parts))
    with pytest.raises(InvalidAgent, match=r"PIIMiddleware\[email\] seals arguments: list it after Human"):
        check_masks(create_agent(ScriptedModel(script=[""]), middleware=parts[::-1]))


def test_callers_cannot_say_that_a_message_is_masked() -> None:
    agent = create_agent(ScriptedModel(script=[""]), middleware=[PIIMiddleware("email")])
    told = {"placet_masked": ["email"], "placet_sealed": {"x": "y"}, "source": "web"}
    given = {"messages": ["hi", {"role": "user", "content": MAIL, "id": "1", "additional_kwargs": told}]}
    first, second = masks_of(agent).input(given)["messages"]
    assert (first.content, second.content, second.id) == ("hi", MASK, "1")
    assert second.additional_kwargs == {"source": "web"}
