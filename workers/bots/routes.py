"""Which request goes where on chat platforms, and when again: the routing file."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from ..errors import InvalidSettings
from ..settings_files import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from ..state.approvals import Approval

_SETTING = "PLACET_ROUTES"
_KINDS = ("tool_call", "question", "breakpoint", "unknown_call")


def _several(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _with_channel(destinations: list[str]) -> list[str]:
    for one in destinations:
        channel, colon, rest = one.partition(":")
        if not (channel and colon and rest):
            raise ValueError(f"{one!r} must be channel:destination, such as slack:C024BE91L")
    return destinations


def _of_kinds(patterns: list[str]) -> list[str]:
    for one in patterns:
        if not any(fnmatchcase(kind, one) for kind in _KINDS):
            raise ValueError(f"{one!r} is none of {', '.join(_KINDS)}")
    return patterns


_Patterns = Annotated[list[str], BeforeValidator(_several), Field(min_length=1)]
_Destinations = Annotated[
    list[str], BeforeValidator(_several), AfterValidator(_with_channel), Field(min_length=1)
]
_Seconds = Annotated[float, Field(gt=0)]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Match(_Shape):
    """What a request has to be; texts with `*` and `?`, any of several. What is left out matches all."""

    agent: _Patterns = ["*"]
    tool: _Patterns | None = None
    kind: Annotated[_Patterns, AfterValidator(_of_kinds)] = ["*"]
    reviewers: _Patterns | None = None
    """Of those that the request's policy names."""
    principal: _Patterns | None = None

    def fits(self, approval: Approval) -> bool:
        """Whether a request is meant."""
        named = (approval.policy or {}).get("reviewers", [])
        return (
            _any([approval.agent], self.agent)
            and _any([approval.kind], self.kind)
            and (self.tool is None or _any([approval.tool or ""], self.tool))
            and (self.principal is None or _any([approval.principal or ""], self.principal))
            and (self.reviewers is None or _any(named, self.reviewers))
        )


class Escalation(_Shape):
    """Where a request goes too once it has waited for so long."""

    after_seconds: _Seconds
    to: _Destinations


class Route(_Shape):
    """Where the requests that match go."""

    match: Match = Match()
    to: _Destinations
    remind_seconds: _Seconds | None = None
    """How often a request that still waits is posted again."""
    escalate: list[Escalation] = []


class _Contents(_Shape):
    routes: Annotated[list[Route], Field(min_length=1)]


class Routes:
    """The routes of a file; the first that matches a request is its route."""

    def __init__(self, routes: list[Route]) -> None:
        self._routes = routes

    @classmethod
    def read(cls, path: str, *, channel: str) -> Self:
        """Read the file that `PLACET_ROUTES` names.

        Raises:
            InvalidSettings: when it cannot be used, or leads nothing to the channel.
        """
        if not path:
            raise InvalidSettings(f"{_SETTING}: must name a YAML file that says which request goes where")
        try:
            routes = cls(read_yaml(Path(path), _Contents, _SETTING).routes)
        except OSError as error:
            raise InvalidSettings(f"{_SETTING}: {path}: {error.strerror}") from None
        if not any(routes.led_to(channel)):
            raise InvalidSettings(f"{_SETTING}: {path}: no route leads to {channel}:…")
        return routes

    def led_to(self, channel: str) -> Iterator[str]:
        """All destinations on a channel."""
        for route in self._routes:
            for to in (route.to, *(step.to for step in route.escalate)):
                yield from _on(channel, to)

    def wanted(self, approval: Approval, channel: str, waited: float) -> dict[str, int]:
        """Destinations on a channel for a request that has waited so many seconds, each with a number.

        The number counts reminders: a card of that number, or a later one, is to be there.
        """
        route = self._of(approval)
        if route is None:
            return {}
        number = int(waited // route.remind_seconds) if route.remind_seconds else 0
        wanted = dict.fromkeys(_on(channel, route.to), number)
        for step in route.escalate:
            if waited >= step.after_seconds:
                for destination in _on(channel, step.to):
                    wanted.setdefault(destination, 0)
        return wanted

    def next_change(self, approval: Approval, waited: float) -> float | None:
        """Seconds until `wanted` may answer otherwise; None if it will not."""
        route = self._of(approval)
        if route is None:
            return None
        ahead = [step.after_seconds - waited for step in route.escalate if step.after_seconds > waited]
        if route.remind_seconds:
            ahead.append(route.remind_seconds - waited % route.remind_seconds)
        return min(ahead, default=None)

    def _of(self, approval: Approval) -> Route | None:
        return next((route for route in self._routes if route.match.fits(approval)), None)


def _any(values: list[str], patterns: list[str]) -> bool:
    return any(fnmatchcase(value, pattern) for value in values for pattern in patterns)


def _on(channel: str, destinations: list[str]) -> list[str]:
    prefix = f"{channel}:"
    return [one.removeprefix(prefix) for one in destinations if one.startswith(prefix)]
