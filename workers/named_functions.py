"""Functions that settings name, `package.module:function`: the operator said them, no caller or model did."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from .errors import InvalidSettings

_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")


def is_function(source: str) -> bool:
    """Whether a setting's text is `package.module:function`."""
    return _NAME.fullmatch(source) is not None


def load_function(source: str, setting: str) -> Any:
    """Import what a setting names.

    Raises:
        InvalidSettings: one line, when its module cannot be imported, it is not there, or cannot be called.
    """
    module, _, name = source.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)  # as uvicorn and celery do
    try:
        found = getattr(import_module(module), name)
    except Exception as error:
        text = " ".join(str(error).split())
        raise InvalidSettings(f"{setting}: {source}: {type(error).__name__}: {text}") from error
    if not callable(found):
        raise InvalidSettings(f"{setting}: {source} must be a function")
    return found
