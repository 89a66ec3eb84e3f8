from __future__ import annotations

import dataclasses
import enum
import re
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from ipaddress import ip_address, ip_interface, ip_network
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.store.base import Item
from langgraph.types import Command, Interrupt, Overwrite, Send
from pydantic import BaseModel, Field, PrivateAttr

from placet.checkpoint.serde import CheckpointSerde, parse_allowed_types
from placet.errors import InvalidSettings, UnreadableCheckpoint, UnstorableType


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    LOW = 1


class Word(enum.StrEnum):
    A = "a"


class Access(enum.Flag):
    READ = 1
    WRITE = 2


@dataclasses.dataclass
class Plain:
    x: int
    y: Any = None
    doubled: int = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.doubled = self.x * 2


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    when: datetime


class Point(NamedTuple):
    x: int
    y: int


class Ticket(BaseModel):
    class Kind(enum.Enum):
        BUG = 1

    title: str
    amount: Decimal = Decimal(0)
    hidden: int = Field(default=0, exclude=True)
    alias: int = Field(default=0, alias="other")
    kind: Kind = Kind.BUG
    anything: Any = None
    _seen: int = PrivateAttr(default=0)


class Strange:
    pass


class Text(str):
    __slots__ = ()


ALLOWED = CheckpointSerde().with_msgpack_allowlist(
    [Colour, Level, Word, Access, Plain, Frozen, Point, Ticket, Ticket.Kind]
)


def seen_ticket() -> Ticket:
    ticket = Ticket(title="t", other=3, hidden=5, anything=Plain(1))
    ticket._seen = 7
    return ticket


STORABLE: list[Any] = [
    None,
    True,
    -(2**63),
    2**64 - 1,
    2**200,
    1.5,
    float("inf"),
    "日本語 🚀",
    b"\x00\xff",
    bytearray(b"x"),
    [1, [2]],
    (1, (2, [3])),
    {"a": {1: {"b": (1,)}}},
    {1: "a", "1": "b"},
    {Colour.RED: 1, (1, 2): 2, UUID(int=1): 3, None: 4, date(2026, 1, 1): 5, b"k": 6, Word.A: 7, 1.5: 8},
    {1, "a"},
    frozenset({(1, 2)}),
    deque([1], maxlen=3),
    Counter("aab"),
    OrderedDict([("b", 1), ("a", 2)]),
    defaultdict(list, a=[1]),
    complex(1, 2),
    Fraction(1, 3),
    Decimal("1.10"),
    datetime(2026, 11, 1, 1, 30, fold=1, tzinfo=ZoneInfo("America/New_York")),
    datetime(2026, 1, 1),  # noqa: DTZ001 - naive on purpose
    datetime(2026, 1, 1, tzinfo=UTC),
    time(1, 2, 3, 4, tzinfo=timezone(timedelta(hours=2), "X")),
    date(2026, 1, 1),
    timedelta(days=-1, microseconds=1),
    ZoneInfo("Europe/Berlin"),
    UUID(int=5),
    Path("/a/b"),
    PurePosixPath("a"),
    re.compile("a+", re.IGNORECASE),
    range(1, 9, 2),
    ip_address("::1"),
    ip_interface("10.0.0.1/8"),
    ip_network("10.0.0.0/8"),
    Colour.RED,
    Level.LOW,
    Word.A,
    Access.READ | Access.WRITE,
    Plain(1, y={"n": Frozen(datetime(2026, 1, 1, tzinfo=UTC))}),
    Point(1, 2),
    seen_ticket(),
    HumanMessage("hi", id="1", additional_kwargs={"x": Decimal(1)}),
    AIMessage([{"type": "text", "text": "a"}], tool_calls=[{"name": "t", "args": {"a": 1}, "id": "c"}]),
    AIMessageChunk(content="part"),
    ToolMessage("r", tool_call_id="c", artifact={"raw": b"\xff", "ticket": seen_ticket(), "t": (1, 2)}),
    Document("text", metadata={"at": date(2026, 1, 1)}),
    Send("node", {"x": (1,)}, timeout=3),
    Command(update={"a": 1}, goto=[Send("n", 1)], resume={"i": False}),
    Overwrite([1]),
    Interrupt({"q": 1}, id="i", response_schema={"type": "object"}),
    Item(
        value={"a": 1}, key="k", namespace=("n",), created_at=datetime.now(UTC), updated_at=datetime.now(UTC)
    ),
    _DeltaSnapshot([HumanMessage("hi")]),
    np.float64(1.5),
    np.int8(3),
]


@pytest.mark.parametrize("value", STORABLE, ids=lambda v: type(v).__name__)
def test_comes_back_with_its_type(value: Any) -> None:
    stored = ALLOWED.dumps_typed(value)
    back = ALLOWED.loads_typed(stored)
    assert ALLOWED.dumps_typed(back) == stored
    assert back == value or (isinstance(value, bytearray) and back == bytes(value))
    assert repr(back) == repr(value) or isinstance(value, bytearray | set | frozenset)
    if not isinstance(value, bytearray):
        assert type(back) is type(value)


def test_model_keeps_private_excluded_and_set_fields() -> None:
    back = ALLOWED.loads_typed(ALLOWED.dumps_typed(seen_ticket()))
    assert (back._seen, back.hidden, back.alias) == (7, 5, 3)
    assert back.model_fields_set == {"title", "alias", "hidden", "anything"}
    assert type(back.anything) is Plain
    assert back.kind is Ticket.Kind.BUG


def test_dataclass_is_restored_without_running_its_code() -> None:
    changed = Plain(1)
    changed.doubled = 99
    assert ALLOWED.loads_typed(ALLOWED.dumps_typed(changed)).doubled == 99


def test_zone_fold_and_factory_come_back() -> None:
    when = datetime(2026, 11, 1, 1, 30, fold=1, tzinfo=ZoneInfo("America/New_York"))
    back = ALLOWED.loads_typed(ALLOWED.dumps_typed([when, defaultdict(list)]))
    assert back[0].utcoffset() == when.utcoffset()
    assert back[0].tzinfo is when.tzinfo
    assert back[1]["new"] == []


def test_arrays_come_back_writable() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    back = ALLOWED.loads_typed(ALLOWED.dumps_typed({"a": array}))["a"]
    assert back.dtype == array.dtype
    assert np.array_equal(back, array)
    back[0, 0] = 5


def test_message_text_is_stored_as_the_text_it_is() -> None:
    assert ALLOWED.loads_typed(ALLOWED.dumps_typed([AIMessage("hello").text])) == ["hello"]


def local_class() -> Any:
    @dataclasses.dataclass
    class Local:
        x: int

    return Local(1)


REFUSED: list[tuple[Any, str]] = [
    (Strange(), "test_checkpoint_serde.Strange"),
    ([{"deep": (Strange(),)}], "test_checkpoint_serde.Strange"),
    (ToolMessage("r", tool_call_id="c", artifact=Strange()), "test_checkpoint_serde.Strange"),
    (Text("x"), "Text"),
    (Strange, "type"),
    (Plain, "type"),
    (lambda: None, "function"),
    (local_class(), "Local"),
    ([ValueError("x")], "ValueError"),
    (defaultdict(lambda: 1), "defaultdict"),
    (np.array([Strange()]), "ndarray"),
    ({Strange(): 1}, "Strange"),
]


@pytest.mark.parametrize(("value", "named"), REFUSED, ids=[f"{type(v).__name__}-{n}" for v, n in REFUSED])
def test_another_type_is_refused_when_written(value: Any, named: str) -> None:
    with pytest.raises(UnstorableType, match=re.escape(named)):
        ALLOWED.dumps_typed(value)


def test_a_value_that_holds_itself_is_refused() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(UnstorableType, match="holds itself"):
        ALLOWED.dumps_typed(circle)


def test_refusal_names_type_and_setting_and_the_setting_allows_it() -> None:
    entry = f"{Ticket.__module__}:Ticket"
    with pytest.raises(UnstorableType, match=re.escape(entry) + " to PLACET_ALLOWED_TYPES"):
        CheckpointSerde().dumps_typed({"t": Ticket(title="x", kind=Ticket.Kind.BUG)})
    allowed = parse_allowed_types(f" {entry} , {Ticket.__module__}:Ticket.Kind,")
    serde = CheckpointSerde(allowed_types=allowed)
    assert serde.loads_typed(serde.dumps_typed(Ticket(title="x"))) == Ticket(title="x")


@pytest.mark.parametrize("text", ["Ticket", "a.b.Ticket", ":Ticket", "a:", "a:b-c"])
def test_malformed_setting_is_refused(text: str) -> None:
    with pytest.raises(InvalidSettings, match="PLACET_ALLOWED_TYPES"):
        parse_allowed_types(text)


def test_a_type_that_is_not_allowed_here_is_not_made_when_read() -> None:
    stored = ALLOWED.dumps_typed([Plain(1)])
    with pytest.raises(UnreadableCheckpoint, match=r"Plain.*PLACET_ALLOWED_TYPES"):
        CheckpointSerde().loads_typed(stored)


def test_pickle_and_json_are_not_read() -> None:
    for kind in ("pickle", "json", "msgpack"):
        with pytest.raises(UnreadableCheckpoint, match=kind):
            CheckpointSerde().loads_typed((kind, b"x"))


def test_broken_data_is_refused() -> None:
    kind, data = ALLOWED.dumps_typed([Plain(1), "text"])
    with pytest.raises(UnreadableCheckpoint):
        ALLOWED.loads_typed((kind, data[:-3]))


def test_changed_class_is_validated(monkeypatch: pytest.MonkeyPatch) -> None:
    class Ticket2(BaseModel):
        title: str
        amount: Decimal
        added: int = 4

    class Ticket3(BaseModel):
        title: str
        required: int

    stored = ALLOWED.dumps_typed(Ticket(title="t", amount=Decimal("1.5")))
    monkeypatch.setitem(Ticket2.model_config, "extra", "ignore")
    for later in (Ticket2, Ticket3):
        later.Kind = Ticket.Kind  # type: ignore[union-attr]
    monkeypatch.setattr(sys.modules[__name__], "Ticket", Ticket2)
    assert ALLOWED.loads_typed(stored).model_dump() == {"title": "t", "amount": Decimal("1.5"), "added": 4}
    monkeypatch.setattr(sys.modules[__name__], "Ticket", Ticket3)
    with pytest.raises(UnreadableCheckpoint, match="required"):
        ALLOWED.loads_typed(stored)


def test_errors_are_stored_as_text() -> None:
    assert ALLOWED.loads_typed(ALLOWED.dumps_typed(ValueError("x"))) == "ValueError('x')"


CONSTRUCTOR = {"lc": 2, "type": "constructor", "id": ["antigravity", "x"], "kwargs": {"a": 1}}


def test_constructors_in_data_import_nothing_and_stay_data() -> None:
    messages = [
        HumanMessage([{"type": "text", "text": "x", "extra": CONSTRUCTOR}]),
        AIMessage("", tool_calls=[{"name": "t", "args": {"payload": CONSTRUCTOR}, "id": "1"}]),
    ]
    back = ALLOWED.loads_typed(ALLOWED.dumps_typed(messages))
    assert back == messages
    assert back[1].tool_calls[0]["args"]["payload"] == CONSTRUCTOR
    assert "antigravity" not in sys.modules


PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.fractions()
    | st.datetimes(timezones=st.none() | st.timezones())
    | st.timedeltas()
    | st.uuids(),
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(
            st.text(st.characters(exclude_categories=["Cs"])) | st.integers() | st.uuids(), inner
        )
    ),
    max_leaves=20,
)


@given(PLAIN)
def test_any_nesting_of_value_types_comes_back(value: Any) -> None:
    back = ALLOWED.loads_typed(ALLOWED.dumps_typed(value))
    assert back == value
    assert repr(back) == repr(value)


def test_lone_surrogates_are_replaced() -> None:
    back = ALLOWED.loads_typed(ALLOWED.dumps_typed({"a": "cut \ud83d", "b\ud83d": 1}))
    assert back == {"a": "cut ?", "b?": 1}


HASHED = """
from langchain_core.messages import AIMessage
from placet.checkpoint.codec import Codec
from placet.checkpoint.serde import CheckpointSerde
message = AIMessage("a" * 100, id="1", name="n", additional_kwargs={"s": {"a", "b", "c", "d"}})
print(Codec(CheckpointSerde(), b"").split([message])[0][0].hex())
"""


def test_a_message_has_the_same_digest_in_every_process() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", HASHED],
            capture_output=True,
            text=True,
            check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(found) == 1


def test_without_strict_mode_the_refusal_says_why_schemas_are_unknown() -> None:
    code = (
        "import langgraph.checkpoint.base, dataclasses;"
        "from placet.checkpoint.serde import CheckpointSerde;"
        "A = dataclasses.make_dataclass('A', ['x']); A.__module__ = '__main__';"
        "CheckpointSerde().dumps_typed(A(1))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env={})
    assert "cannot hold __main__.A" in out.stderr
    assert "LANGGRAPH_STRICT_MSGPACK=true" in out.stderr


def test_importing_the_saver_turns_strict_msgpack_on() -> None:
    code = (
        "import placet.checkpoint.saver, langgraph.checkpoint.serde._msgpack as m;"
        "print(m.STRICT_MSGPACK_ENABLED)"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={})
    assert out.stdout.strip() == "True"
