"""Stored data made smaller: deflated with a dictionary of what the data of agents is full of."""

from __future__ import annotations

import json
import zlib
from typing import Any

_LEAST, _MOST = 128, 65_536
"""Bytes worth a try; more would hold up the event loop."""
_WINDOW, _MEMORY, _LEVEL = -13, 5, 3  # a small window: setting up a large one takes longer than the work

# part of the format: data that was written with it can be read with it alone, so never change it; what is
# most frequent stands last
_WORDS = b"".join(
    (
        b'"additionalProperties":false},"enum":["default":"minimum":"maxLength":"items":"array","boolean","null"',
        b'{"oneOf":[{"type":"object","properties":{"type":{"const":"approve"}},"required":["type"],',
        b'{"type":{"const":"edit"},"edited_action":{"type":"object","properties":{"name":{"const":"",',
        b'"args":{"description":"properties":{"":{"title":"","type":"string"},"":{"title":"","type":"number"}},',
        b'"required":[""],"title":"","type":"object"}},"required":["name","args"],"additionalProperties":false}},',
        b'"required":["type","edited_action"],"additionalProperties":false},{"type":"object","properties":',
        b'{"type":{"const":"reject"},"message":{"type":"string"}},"required":["type"],"additionalProperties":',
        b'false},{"type":"object","properties":{"type":{"const":"respond"},"message":{"type":"string"}},',
        b'"required":["type","message"],"additionalProperties":false}]}',
        b'{"interrupts":[{"id":"","value":{"action_requests":[{"name":"","args":{"":"","":0},"description":',
        b"\"Tool execution requires approval\\n\\nTool: \\nArgs: {'': '', '': 0}\"}],\"review_configs\":",
        b'[{"action_name":"","allowed_decisions":["approve","edit","reject","respond"]}]},"response_schema":',
        b'null}],"approvals":["","wake_at_ms":null}{"node":"model","message":{"content":"","id":"lc_run--019',
        b'"tool_call_chunks":[{"name":"","args":"{\\"\\": \\"\\", \\"\\": }","index":0,"type":',
        b'"tool_call_chunk"}]}},"chunk_position":"last"}}{"tools":{"messages":[{"content":"","status":"success","artifact":null',
        b'{"model":{"messages":[{"content":"","additional_kwargs":{},"response_metadata":{},"type":"ai","name":',
        b'null,"id":"lc_run--019","tool_calls":[{"name":"","args":{"":""},"id":"call_","type":"tool_call"}],',
        b'"invalid_tool_calls":[],"usage_metadata":null}]}}',
        b'null}],"tool_call_id":"call_","response_schema":{"required":["decisions"],"type":"object"}}],"approvals":["',
        b"\x83\xaamessage_id\xd9,lc_run--019\xa5calls\x81\xd9 \x87\xa4gate\xb8HumanInTheLoop",
        b"Middleware\xactool_call_id",
        b"\xaacall_\xa4mode\xa7batched\xa3ask\xc3\xabdescription\xd9Y",
        b"Tool execution requires approval\n\nTool: \nArgs: {'",
        b"\xa7allowed\x94\xa7approve\xa4edit\xa6reject\xa7respond\xa5tools\x91\xa5tools\x81\x82\xa6schema\x81\xaaproperties",
        b"\xaaundeclared\xa4drop\xachitl_reviews\xb100000003.\x92\xa8required\x91\xa9decisions\xa4type\xa6object",
        b"\xa5tuple\x91\x93\xaflanggraph.types\xa9Interrupt\x83\xa5value\x82\xafaction_requests\x91\x83\xa4name",
        b"\xa4args\x82\xabdescription\xaereview_configs\x91\x82\xabaction_name\xb1allowed_decisions\x94\xa7approve",
        b"\xa4edit\xa6reject\xa7respond\xa2id\xd9 \xafresponse_schema\xc0",
        b"\x92\x86\xa1v\x04\xa2ts\xd9 2026-12-01T00:00:00.000000+00:00\xa2id\xd9$1f1\xb0channel_versions\x84",
        b"\xa9__start__\xb100000001.\xaabranch:to:\xafbranch:to:model\xb100000002.\xafbranch:to:tools\xa8messages",
        b"\xd9.branch:to:HumanInTheLoopMiddleware.after_model\xb100000003.\xadversions_seen\x83\xa9__input__\x80\xa9__start__\x81\xa9__start__\xb100000001.\xa5model\x81\xa5tools\x81",
        b"\xad__interrupt__\xb0updated_channels\x92\xa8messages\x85\xa6source\xa5input\xa4loop\xa4step\x01\xa7parents",
        b"\x80\xaels_integration\xb6langchain_create_agent\xa6run_id\xd9 ",
        b"\xbdlangchain_core.messages.human\xacHumanMessage\x86\xa7content\xd9\xa4role\xa4user\xa5human\x91\x83",
        b"\xbblangchain_core.messages.tool\xabToolMessage\x89\xactool_call_id\xaacall_\xa8artifact\xc0\xa6status",
        b"\xa7success\xa4tool",
        b"\x96\xbalangchain_core.messages.ai\xa9AIMessage\x89\xa7content\xa0\xb1additional_kwargs\x80",
        b"\xb1response_metadata\x80\xa4type\xa2ai\xa4name\xc0\xa2id\xd9,lc_run--019\xaatool_calls\x91\x84\xa4name",
        b"\xa4args\x82\xa2id\xaacall_\xa4type\xa9tool_call\xb2invalid_tool_calls\x90\xaeusage_metadata\xc0\x80",
        b"\x98\xb1additional_kwargs\xa7content\xa2id\xb2invalid_tool_calls\xa4name\xb1response_metadata",
        b"\xaatool_calls\xaeusage_metadata\xc0",
    )
)


def deflated(data: bytes) -> bytes | None:
    """Make bytes smaller, if that can be done in no time."""
    if not _LEAST <= len(data) <= _MOST:
        return None
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, _WINDOW, _MEMORY, zlib.Z_DEFAULT_STRATEGY, _WORDS)
    made = deflate.compress(data) + deflate.flush()
    return made if len(made) < len(data) else None


def inflated(data: bytes) -> bytes:
    """Give back what `deflated` was given.

    Raises:
        ValueError: when it was not made by `deflated`, or is damaged.
    """
    inflate = zlib.decompressobj(_WINDOW, zdict=_WORDS)
    try:
        made = inflate.decompress(data, _MOST)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not inflate.eof:
        raise ValueError("it is cut off, or too long")
    return made


def compact_json(text: str) -> bytes:
    """JSON text as it is stored: deflated, behind a zero byte, if that is smaller."""
    data = text.encode()
    made = deflated(data)
    return data if made is None else b"\0" + made


def load_json(stored: bytes) -> Any:
    """Read what `compact_json` made, or plain JSON."""
    return json.loads(inflated(stored[1:]) if stored[:1] == b"\0" else stored)
