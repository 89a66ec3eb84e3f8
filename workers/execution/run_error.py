"""An exception as the data that is kept with its run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import EarlierToolError

if TYPE_CHECKING:
    from ..agents.masks import Masks
    from ..state.runs import RunError

MOST_TEXT = 10_000
"""Characters of an exception's text that are kept."""


def run_error(error: BaseException, masks: Masks | None = None) -> RunError:
    """Class name, text (masked, shortened), and the node that LangGraph says the exception came from."""
    node = None
    for note in getattr(error, "__notes__", ()):
        if note.startswith("During task with name '"):
            node = note.split("'")[1]
            break
    name = error.type_name if isinstance(error, EarlierToolError) else type(error).__name__
    text = (str(error) or name).encode("utf-8", "backslashreplace").decode()
    text = masks.text(text) if masks else text
    if len(text) > MOST_TEXT:
        text = text[:MOST_TEXT] + f" … ({len(text)} characters)"
    return {"type": name, "message": text, "node": node}
