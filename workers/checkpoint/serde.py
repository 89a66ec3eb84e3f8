"""The serializer of checkpoints: a value comes back with its type, or is refused when it is written."""

from __future__ import annotations

import dataclasses
import sys
from enum import Enum, Flag
from functools import reduce
from importlib import import_module
from typing import TYPE_CHECKING, Any

import ormsgpack
from langgraph.checkpoint.serde._msgpack import SAFE_MSGPACK_TYPES, STRICT_MSGPACK_ENABLED
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from pydantic import BaseModel

from ..errors import InvalidSettings, UnreadableCheckpoint, UnstorableType
from .value_types import ARRAY, BY_TAG, SCALAR, VALUE_TYPES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from .value_types import ValueType

_FORMAT = "placet"
_SETTING = "PLACET_ALLOWED_TYPES"
_LATE = (
    "the graph's schemas are not known, because langgraph was imported without LANGGRAPH_STRICT_MSGPACK=true"
    " (importing placet.checkpoint before it sets that)"
)
_VALUE, _MODEL, _DATACLASS, _ENUM, _NAMED_TUPLE, _MAP = range(6)
_OPTIONS = (
    ormsgpack.OPT_PASSTHROUGH_BIG_INT
    | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    | ormsgpack.OPT_PASSTHROUGH_DATETIME
    | ormsgpack.OPT_PASSTHROUGH_ENUM
    | ormsgpack.OPT_PASSTHROUGH_SUBCLASS
    | ormsgpack.OPT_PASSTHROUGH_TUPLE
    | ormsgpack.OPT_PASSTHROUGH_UUID
    | ormsgpack.OPT_REPLACE_SURROGATES
)


class CheckpointSerde(JsonPlusSerializer):
    """Msgpack with types: plain data, the standard library's value types, and classes on an allowlist.

    Allowed classes are pydantic models, dataclasses, enums and named tuples. They are restored from their
    state: no constructor or validator runs, unless the class has changed since. LangGraph adds the classes
    that a graph's schemas name; nothing is imported that is not on the list. Three things change on the way:
    a lone surrogate in a string becomes `?`, a bytearray inside another value bytes, and an exception
    (LangGraph's error writes) its repr.

    `others_as_data` is for a process that only shows checkpoints and has not the agent's code: it reads a
    class that is not on the list as the plain data it was stored as.
    """

    def __init__(
        self, *, allowed_types: Iterable[tuple[str, ...]] = (), others_as_data: bool = False
    ) -> None:
        super().__init__(allowed_msgpack_modules=None)
        self._allowed = SAFE_MSGPACK_TYPES | frozenset(allowed_types)
        self._others_as_data = others_as_data
        self._names: dict[type, tuple[str, str]] = {}

    def with_msgpack_allowlist(self, extra_allowlist: Iterable[tuple[str, ...] | type]) -> CheckpointSerde:
        """Return a serializer that allows these too: classes or `(module, name)`."""
        extra = {(t.__module__, t.__qualname__) if isinstance(t, type) else t for t in extra_allowlist}
        if extra <= self._allowed:
            return self
        return CheckpointSerde(allowed_types=self._allowed | extra, others_as_data=self._others_as_data)

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """Serialize.

        Raises:
            UnstorableType: when the value holds something that would not come back with its type.
        """
        # an error write holds the exception itself, and LangGraph reads it as text
        packer = _Packer(self._allowed, self._names)
        if type(obj) in self._names:  # one message of many: spares ormsgpack the way back to `default`
            return _FORMAT, packer.pack(packer.default(obj))
        return _FORMAT, packer.pack(repr(obj) if isinstance(obj, BaseException) else obj)

    def loads_typed(self, data: tuple[str, bytes]) -> Any:
        """Make the value again.

        Raises:
            UnreadableCheckpoint: when the data names a type that is not allowed, not there or has changed.
        """
        if data[0] != _FORMAT:
            raise UnreadableCheckpoint(f"unknown format {data[0]!r}")
        return _Unpacker(self._allowed, others_as_data=self._others_as_data).unpack(data[1])


def parse_allowed_types(text: str) -> frozenset[tuple[str, str]]:
    """Read the setting: comma-separated `package.module:Type`.

    Raises:
        InvalidSettings: when an entry has another form.
    """
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    for entry in entries:
        module, colon, name = entry.partition(":")
        if not (colon and module and name.replace(".", "_").isidentifier()):
            raise InvalidSettings(f"{_SETTING}: {entry!r} is not package.module:Type")
    return frozenset((entry.partition(":")[0], entry.partition(":")[2]) for entry in entries)


def _is_allowed(allowed: frozenset[tuple[str, ...]], module: str, qualname: str) -> bool:
    # LangGraph lists a nested class by its last name
    return (module, qualname) in allowed or (module, qualname.rpartition(".")[2]) in allowed


def _find(module: Any, qualname: str) -> Any:
    if "." not in qualname:
        return getattr(module, qualname)
    return reduce(getattr, qualname.split("."), module)


class _Packer:
    """One value on its way to bytes; keeps the reason that ormsgpack would swallow."""

    __slots__ = ("allowed", "names", "refusal")

    def __init__(self, allowed: frozenset[tuple[str, ...]], names: dict[type, tuple[str, str]]) -> None:
        self.allowed = allowed
        self.names = names
        self.refusal: UnstorableType | None = None

    def pack(self, obj: Any) -> bytes:
        try:
            return ormsgpack.packb(obj, default=self.default, option=_OPTIONS)
        except ormsgpack.MsgpackEncodeError as exc:
            if self.refusal is None:
                # ormsgpack takes str keys alone: with others it would store enums and dates as what they hold
                return self.pack_tamed(obj, str(exc))
            raise self.refusal from None

    def pack_tamed(self, obj: Any, message: str) -> bytes:
        try:
            tamed = self.tame(obj)
        except RecursionError:
            tamed, message = obj, "it holds itself, or is nested too deep"
        if tamed is obj:
            self.refusal = self.refusal or UnstorableType(type(obj).__name__, message)
            raise self.refusal
        return ormsgpack.packb(tamed, default=self.default, option=_OPTIONS)

    def tame(self, obj: Any) -> Any:
        """Return the same with maps of other keys packed as pairs; the object itself when there are none."""
        if type(obj) is dict:
            items = {key: self.tame(item) for key, item in obj.items()}
            if any(type(key) is not str or not key.isprintable() for key in obj):
                return ormsgpack.Ext(_MAP, self.pack([[k, v] for k, v in items.items()]))
            return items if any(items[key] is not obj[key] for key in obj) else obj
        if type(obj) is list:
            tamed = [self.tame(item) for item in obj]
            return tamed if any(a is not b for a, b in zip(tamed, obj, strict=True)) else obj
        return obj

    def default(self, obj: Any) -> Any:
        try:
            return self.encode(obj)
        except UnstorableType as exc:
            self.refusal = self.refusal or exc
            raise
        except Exception as exc:
            self.refusal = self.refusal or UnstorableType(type(obj).__name__, str(exc))
            raise

    def encode(self, obj: Any) -> Any:
        cls = type(obj)
        if (value_type := VALUE_TYPES.get(cls)) is not None:
            return self.value(value_type, obj)
        if isinstance(obj, BaseModel):
            code, state = _MODEL, _model_state(obj)
        elif isinstance(obj, Enum):
            code, state = _ENUM, [obj.value if isinstance(obj, Flag) else obj.name]
        elif dataclasses.is_dataclass(obj) and not isinstance(obj, type):
            code, state = _DATACLASS, [_dataclass_state(obj)]
        elif isinstance(obj, tuple) and hasattr(obj, "_fields"):
            code, state = _NAMED_TUPLE, [list(obj)]
        elif (value_type := _numpy_type(obj)) is not None:
            return self.value(value_type, obj)
        else:
            return _base_value(obj)
        return ormsgpack.Ext(code, self.pack([*(self.names.get(cls) or self.name(cls)), *state]))

    def value(self, value_type: ValueType, obj: Any) -> ormsgpack.Ext:
        return ormsgpack.Ext(_VALUE, self.pack([value_type.tag, value_type.parts(obj)]))

    def name(self, cls: type) -> tuple[str, str]:
        module, qualname = cls.__module__, cls.__qualname__
        if not _is_allowed(self.allowed, module, qualname):
            why = "it is in no schema of the graph" if STRICT_MSGPACK_ENABLED else _LATE
            raise UnstorableType(
                f"{module}.{qualname}", f"{why}; to allow it add {module}:{qualname} to {_SETTING}"
            )
        try:
            found = _find(sys.modules.get(module), qualname)
        except AttributeError:
            found = None
        if found is not cls:
            raise UnstorableType(f"{module}.{qualname}", "no other process could import it by that name")
        self.names[cls] = (module, qualname)
        return module, qualname


class _Unpacker:
    """One value on its way back; keeps the reason that ormsgpack would swallow."""

    __slots__ = ("allowed", "others_as_data", "refusal")

    def __init__(self, allowed: frozenset[tuple[str, ...]], *, others_as_data: bool) -> None:
        self.allowed = allowed
        self.others_as_data = others_as_data
        self.refusal: UnreadableCheckpoint | None = None

    def unpack(self, data: bytes) -> Any:
        try:
            return ormsgpack.unpackb(data, ext_hook=self.ext_hook, option=ormsgpack.OPT_NON_STR_KEYS)
        except ormsgpack.MsgpackDecodeError as exc:
            raise (self.refusal or UnreadableCheckpoint(str(exc))) from None

    def ext_hook(self, code: int, data: bytes) -> Any:
        try:
            return self.decode(code, self.unpack(data))
        except UnreadableCheckpoint as exc:
            self.refusal = self.refusal or exc
            raise
        except Exception as exc:
            self.refusal = self.refusal or UnreadableCheckpoint(f"{type(exc).__name__}: {exc}")
            raise

    def decode(self, code: int, parts: list[Any]) -> Any:
        if code == _VALUE:
            return BY_TAG[parts[0]].make(parts[1])
        if code == _MAP:
            return dict(parts)
        if self.others_as_data and not _is_allowed(self.allowed, parts[0], parts[1]):
            return {**parts[2], **(parts[3] or {})} if code == _MODEL else parts[2]
        return self.make(code, self.find(parts[0], parts[1]), parts)

    def make(self, code: int, cls: type, parts: list[Any]) -> Any:
        if code == _MODEL and issubclass(cls, BaseModel):
            return _make_model(cls, *parts[2:])
        if code == _ENUM and issubclass(cls, Enum):
            return cls(parts[2]) if issubclass(cls, Flag) else cls[parts[2]]
        if code == _DATACLASS and dataclasses.is_dataclass(cls):
            return _make_dataclass(cls, parts[2])
        if code == _NAMED_TUPLE and issubclass(cls, tuple):
            return cls(*parts[2])
        raise UnreadableCheckpoint(f"{parts[0]}.{parts[1]} is no longer the kind of class that was stored")

    def find(self, module: str, qualname: str) -> type:
        if not _is_allowed(self.allowed, module, qualname):
            raise UnreadableCheckpoint(
                f"it holds {module}.{qualname}, which is not allowed here;"
                f" to allow it add {module}:{qualname} to {_SETTING}"
            )
        try:
            cls = _find(sys.modules.get(module) or import_module(module), qualname)
        except (ImportError, AttributeError):
            cls = None
        if not isinstance(cls, type):
            raise UnreadableCheckpoint(f"it holds {module}.{qualname}, which is not there any more")
        return cls


def _base_value(obj: Any) -> str | dict[Any, Any]:
    cls = type(obj)
    if cls.__module__.startswith("langchain_core."):
        # AIMessage.text and the dicts that runnables return: subclasses for convenience alone
        if isinstance(obj, str):
            return str.__str__(obj)
        if isinstance(obj, dict):
            return dict(obj)
    raise UnstorableType(
        f"{cls.__module__}.{cls.__qualname__}",
        "of own classes it holds pydantic models, dataclasses, enums and named tuples;"
        f" make it one of these and allow it with {_SETTING}",
    )


def _numpy_type(obj: Any) -> ValueType | None:
    if (numpy := sys.modules.get("numpy")) is None:
        return None
    if type(obj) is numpy.ndarray:
        return ARRAY
    return SCALAR if isinstance(obj, numpy.generic) else None


def _model_state(obj: BaseModel) -> list[Any]:
    fields = type(obj).__pydantic_fields__
    values = obj.__dict__
    if values.keys() != fields.keys():  # cached properties live there too
        values = {name: values[name] for name in fields if name in values}
    # sorted: a set's order differs between processes, and with it would the digest of a message
    return [values, obj.__pydantic_extra__, sorted(obj.__pydantic_fields_set__), obj.__pydantic_private__]


def _make_model(
    cls: type[BaseModel], values: dict[str, Any], extra: Any, fields_set: list[str], private: Any
) -> BaseModel:
    if values.keys() != cls.__pydantic_fields__.keys():
        # the class has changed since: its own validation decides whether the old values still make one
        return cls.model_validate({**values, **(extra or {})}, by_name=True, by_alias=False)
    obj = cls.__new__(cls)
    obj.__setstate__(
        {
            "__dict__": values,
            "__pydantic_extra__": extra,
            "__pydantic_fields_set__": set(fields_set),
            "__pydantic_private__": private,
        }
    )
    return obj


def _dataclass_state(obj: Any) -> dict[str, Any]:
    return {**getattr(obj, "__dict__", {}), **{f.name: getattr(obj, f.name) for f in dataclasses.fields(obj)}}


def _make_dataclass(cls: type[Any], state: dict[str, Any]) -> Any:
    fields = dataclasses.fields(cls)
    if any(field.name not in state for field in fields):
        return cls(
            **{field.name: state[field.name] for field in fields if field.init and field.name in state}
        )
    obj = object.__new__(cls)
    for name, value in state.items():
        object.__setattr__(obj, name, value)
    return obj
