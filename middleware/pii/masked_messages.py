"""Messages with what a rule finds in them replaced, once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from langchain_core.documents import Document
from langchain_core.messages import BaseMessage, ToolMessage
from langgraph.types import Command

from .walk import walk

if TYPE_CHECKING:
    from collections.abc import Callable

    from .redaction import Rule

MASKED = "placet_masked"
"""In `additional_kwargs`: the types whose masks look like what they mask, and are not to be masked again."""
BLOCKED = "placet_blocked"
"""Beside it: the types that are blocked and were found; the next look at the message raises."""


def is_masked(message: BaseMessage, rule: Rule) -> bool:
    """Whether the rule has seen the message."""
    return rule.pii_type in message.additional_kwargs.get(MASKED, ())


def masked_content(content: Any, text: Callable[[str], str]) -> Any:
    """A message's content with its texts put through `text`: itself, or those of its blocks."""
    if isinstance(content, str):
        return text(content) if content else content
    made = [_block(block, text) for block in content]
    return content if all(a is b for a, b in zip(made, content, strict=True)) else made


def _block(block: Any, text: Callable[[str], str]) -> Any:
    if isinstance(block, str):
        return text(block)
    found: dict[str, Any] = {
        name: masked
        for name in ("text", "reasoning", "thinking")
        # what a provider has signed is refused by it if it is changed
        if isinstance(given := block.get(name), str)
        and "signature" not in block
        and (masked := text(given)) != given
    }
    summary = block.get("summary")  # of a reasoning that the provider keeps to itself
    if isinstance(summary, list) and (made := masked_content(summary, text)) is not summary:
        found["summary"] = made
    return {**block, **found} if found else block


def masked_message(message: BaseMessage, rule: Rule, text: Callable[[str], str]) -> BaseMessage:
    """The message with its texts put through `text`, once for each rule; itself if nothing changes."""
    if is_masked(message, rule) or not message.content:
        return message
    content = masked_content(message.content, text)
    return message if content == message.content else _noted(message, rule, {"content": content})


def _noted(message: BaseMessage, rule: Rule, update: dict[str, Any]) -> BaseMessage:
    if masked_content(update.get("content", ""), rule.hide) != update.get("content", ""):
        kwargs = message.additional_kwargs
        noted = {**kwargs, MASKED: [*kwargs.get(MASKED, ()), rule.pii_type]}
        update = {**update, "additional_kwargs": noted}
    return message.model_copy(update=update)


def masked_result(result: Any, rule: Rule) -> Any:
    """What a tool returned (content, artifact, update of the state) with what the rule finds replaced."""
    if isinstance(result, ToolMessage):
        return _masked_tool_message(result, rule)
    if isinstance(result, Command):
        update = _masked_update(result.update, rule)
        return result if update is result.update else _with_update(result, update)
    if isinstance(result, list):
        return [masked_result(one, rule) for one in result]
    return result


def _masked_tool_message(message: ToolMessage, rule: Rule) -> ToolMessage:
    if is_masked(message, rule):
        return message
    found: dict[str, Any] = {}
    content = masked_content(message.content, rule.hide) if message.content else message.content
    if content != message.content:
        found["content"] = content
    artifact = walk(message.artifact, _leaf(rule))
    if artifact is not message.artifact:
        found["artifact"] = artifact
    if not found:
        return message
    made = _noted(message, rule, found)
    if rule.strategy == "block":
        kwargs = made.additional_kwargs
        kwargs = {**kwargs, BLOCKED: [*kwargs.get(BLOCKED, ()), rule.pii_type]}
        made = made.model_copy(update={"additional_kwargs": kwargs})
    assert isinstance(made, ToolMessage)  # noqa: S101 - a copy is what it is a copy of
    return made


def _masked_update(update: Any, rule: Rule) -> Any:
    leaf = _leaf(rule)
    return walk(update, lambda one: masked_result(one, rule) if isinstance(one, BaseMessage) else leaf(one))


def _with_update(command: Command[Any], update: Any) -> Command[Any]:
    return Command(graph=command.graph, update=update, resume=command.resume, goto=command.goto)


def _leaf(rule: Rule) -> Callable[[Any], Any]:
    def leaf(value: Any) -> Any:
        if isinstance(value, str):
            return rule.hide(value)
        if isinstance(value, Document):  # a retriever's, in the artifact of its tool's message
            held = {"page_content": value.page_content, "metadata": value.metadata}
            made = walk(held, leaf)
            return value if made is held else value.model_copy(update=made)
        return value

    return leaf
