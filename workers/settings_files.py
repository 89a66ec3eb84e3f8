"""YAML files that settings name, each with a known shape."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from .errors import InvalidSettings

if TYPE_CHECKING:
    from pathlib import Path

Contents = TypeVar("Contents", bound=BaseModel)


class _OnceEach(yaml.SafeLoader):
    """Refuses a key that stands twice: the first one would be gone without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        """As YAML's, if each key is there once."""
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        if twice := [key for at, key in enumerate(keys) if key in keys[:at]]:
            told = f"{twice[0]!r} stands twice"
            raise yaml.constructor.ConstructorError(None, None, told, node.start_mark)
        return super().construct_mapping(node, deep=deep)


def read_yaml(path: Path, shape: type[Contents], setting: str) -> Contents:
    """Read a YAML file and check its shape.

    Raises:
        InvalidSettings: one line that names the setting, the file, and the place in it.
        OSError: when the file cannot be read.
    """
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_OnceEach)  # noqa: S506 - a safe loader
        return shape.model_validate(data)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}" if mark else ""
        told = getattr(error, "problem", "") if isinstance(error, yaml.constructor.ConstructorError) else ""
        raise InvalidSettings(f"{setting}: {path}{where}: {told or 'no YAML'}") from None
    except UnicodeDecodeError:
        raise InvalidSettings(f"{setting}: {path}: no UTF-8 text") from None
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise InvalidSettings(f"{setting}: {path}: {place or 'the file'}: {first['msg']}") from None
