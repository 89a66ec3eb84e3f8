"""The standard library's value types: how a checkpoint stores each and makes it again."""

from __future__ import annotations

import re
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from importlib import import_module
from ipaddress import (
    IPv4Address,
    IPv4Interface,
    IPv4Network,
    IPv6Address,
    IPv6Interface,
    IPv6Network,
)
from pathlib import PosixPath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

from langgraph.checkpoint.serde.types import _DeltaSnapshot
from langgraph.store.base import Item
from langgraph.types import Send

if TYPE_CHECKING:
    from collections.abc import Callable

_FACTORIES = {f.__name__: f for f in (list, dict, set, int, float, str, bool, tuple)}


class ValueType(NamedTuple):
    """One type: its tag in stored data, its parts (anything storable), and back."""

    tag: str
    parts: Callable[[Any], Any]
    make: Callable[[Any], Any]


def _in_order(value: set[Any] | frozenset[Any]) -> list[Any]:
    # a set's own order differs between processes, and with it would the digest of what holds it
    return sorted(value, key=repr)


def _clock_parts(value: datetime | time) -> list[Any]:
    return [value.replace(tzinfo=None).isoformat(), value.tzinfo, value.fold]


def _datetime(parts: list[Any]) -> datetime:
    return datetime.fromisoformat(parts[0]).replace(tzinfo=parts[1], fold=parts[2])


def _time(parts: list[Any]) -> time:
    return time.fromisoformat(parts[0]).replace(tzinfo=parts[1], fold=parts[2])


def _zone_key(value: ZoneInfo) -> str:
    if value.key is None:
        raise TypeError("a ZoneInfo without a key")
    return value.key


def _timezone_parts(value: timezone) -> list[Any]:
    args: tuple[Any, ...] = value.__getinitargs__()  # type: ignore[attr-defined]
    return list(args)


def _default_dict_parts(value: defaultdict[Any, Any]) -> list[Any]:
    factory = value.default_factory
    if factory is not None and factory not in _FACTORIES.values():
        raise TypeError("a defaultdict whose factory is not a built-in type")
    return [getattr(factory, "__name__", None), list(map(list, value.items()))]


def _default_dict(parts: list[Any]) -> defaultdict[Any, Any]:
    return defaultdict(_FACTORIES[parts[0]] if parts[0] else None, parts[1])


def _pairs(value: dict[Any, Any]) -> list[list[Any]]:
    return [[key, item] for key, item in value.items()]


def _same_text(*types: type) -> dict[type, ValueType]:
    return {t: ValueType(t.__name__, str, t) for t in types}


VALUE_TYPES: dict[type, ValueType] = {
    tuple: ValueType("tuple", list, tuple),
    set: ValueType("set", _in_order, set),
    frozenset: ValueType("frozenset", _in_order, frozenset),
    deque: ValueType("deque", lambda v: [list(v), v.maxlen], lambda p: deque(p[0], p[1])),
    Counter: ValueType("Counter", _pairs, lambda p: Counter(dict(p))),
    OrderedDict: ValueType("OrderedDict", _pairs, OrderedDict),
    defaultdict: ValueType("defaultdict", _default_dict_parts, _default_dict),
    datetime: ValueType("datetime", _clock_parts, _datetime),
    time: ValueType("time", _clock_parts, _time),
    date: ValueType("date", date.isoformat, date.fromisoformat),
    timedelta: ValueType("timedelta", lambda v: [v.days, v.seconds, v.microseconds], lambda p: timedelta(*p)),
    timezone: ValueType("timezone", _timezone_parts, lambda p: timezone(*p)),
    ZoneInfo: ValueType("ZoneInfo", _zone_key, ZoneInfo),
    UUID: ValueType("UUID", lambda v: v.bytes, lambda p: UUID(bytes=p)),
    int: ValueType("int", str, int),  # reached only past 64 bits
    complex: ValueType("complex", lambda v: [v.real, v.imag], lambda p: complex(*p)),
    Fraction: ValueType("Fraction", lambda v: [v.numerator, v.denominator], lambda p: Fraction(*p)),
    range: ValueType("range", lambda v: [v.start, v.stop, v.step], lambda p: range(*p)),
    re.Pattern: ValueType("re", lambda v: [v.pattern, v.flags], lambda p: re.compile(*p)),
    Send: ValueType("Send", lambda v: [v.node, v.arg, v.timeout], lambda p: Send(p[0], p[1], timeout=p[2])),
    Item: ValueType("Item", lambda v: {k: getattr(v, k) for k in Item.__slots__}, lambda p: Item(**p)),
    _DeltaSnapshot: ValueType("DeltaSnapshot", lambda v: v.value, _DeltaSnapshot),
    **_same_text(Decimal, PosixPath, WindowsPath, PurePosixPath, PureWindowsPath),
    **_same_text(IPv4Address, IPv4Interface, IPv4Network, IPv6Address, IPv6Interface, IPv6Network),
}


def _array_parts(value: Any) -> list[Any]:
    if value.dtype.hasobject or value.dtype.fields:
        raise TypeError("a numpy array of objects or records")
    return [value.dtype.str, list(value.shape), value.tobytes()]


def _array(parts: list[Any]) -> Any:
    numpy = import_module("numpy")
    return numpy.frombuffer(parts[2], dtype=parts[0]).reshape(parts[1]).copy()


ARRAY = ValueType("ndarray", _array_parts, _array)
SCALAR = ValueType("numpy", _array_parts, lambda p: _array(p)[()])

BY_TAG = {v.tag: v for v in (*VALUE_TYPES.values(), ARRAY, SCALAR)}
