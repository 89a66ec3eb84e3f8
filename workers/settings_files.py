"""What settings name: YAML files with a known shape, and functions of the operator's own."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from .errors import InvalidSettings

_FUNCTION = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*")

Contents = TypeVar("Contents", bound=BaseModel)


def is_function(source: str) -> bool:
    """Whether a setting's text is `package.module:function`, and no file."""
    return _FUNCTION.fullmatch(source) is not None


def load_function(source: str, setting: str) -> Any:
    """Import what `package.module:function` names; the operator said it, no caller or model did.

    Raises:
        InvalidSettings: when it is not there, or cannot be called.
    """
    module, _, name = source.partition(":")
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.append(here)  # as uvicorn and celery do
    try:
        found = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidSettings(f"{setting}: {source}: {error}") from error
    if not callable(found):
        raise InvalidSettings(f"{setting}: {source} must be a function")
    return found


def read_yaml(path: Path, shape: type[Contents], setting: str) -> Contents:
    """Read a YAML file and check its shape.

    Raises:
        InvalidSettings: one line that names the setting, the file, and the place in it.
        OSError: when the file cannot be read.
    """
    try:
        data = yaml.safe_load(path.read_text(encoding="utf-8"))
        return shape.model_validate(data)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        raise InvalidSettings(f"{setting}: {path}{where}: no YAML") from None
    except UnicodeDecodeError:
        raise InvalidSettings(f"{setting}: {path}: no UTF-8 text") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidSettings(f"{setting}: {path}: {place or 'the file'}: {first['msg']}") from None
