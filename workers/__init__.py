"""Human approvals for LangChain and LangGraph agents on many workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import errors
    from .approvals.decisions import Decision
    from .approvals.reviewers import Reviewer
    from .client import Placet
    from .state.approvals import Approval
    from .state.cards import PostedCard
    from .state.events import Event
    from .state.runs import Run
    from .sync import PlacetSync

__all__ = ["Approval", "Decision", "Event", "Placet", "PlacetSync", "PostedCard", "Reviewer", "Run", "errors"]

_HOME = {
    "Approval": ".state.approvals",
    "Decision": ".approvals.decisions",
    "Event": ".state.events",
    "Placet": ".client",
    "PlacetSync": ".sync",
    "PostedCard": ".state.cards",
    "Reviewer": ".approvals.reviewers",
    "Run": ".state.runs",
}


def __getattr__(name: str) -> Any:
    """Load a public name when it is first asked for."""
    from importlib import import_module  # noqa: PLC0415 - importing the package stays cheap

    if name in _HOME:
        return getattr(import_module(_HOME[name], __name__), name)
    if name == "errors":
        return import_module(".errors", __name__)
    msg = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(msg)
