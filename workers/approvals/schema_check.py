"""JSON Schema, Draft 2020-12: all that is wrong with a value, each with its place."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, best_match
from referencing import Registry
from referencing.exceptions import Unresolvable

from ..json_values import pointer, shortened

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jsonschema.exceptions import ValidationError

    from ..errors import Issue


def issues_of(value: Any, schema: Mapping[str, Any], *, at: tuple[str, ...] = ()) -> Iterator[Issue]:
    """Yield what is wrong with `value`; `at` goes before each path.

    Nothing is fetched: a reference that leads out of the schema, like anything else that makes the
    schema unusable, is an issue of its own.
    """
    try:
        errors = list(_validator(json.dumps(schema)).iter_errors(value))
    except (SchemaError, Unresolvable, RecursionError, re.error) as error:
        message = f"cannot be checked, the response schema is unusable: {_first_line(error)}"
        yield {"path": pointer(at), "message": shortened(message)}
        return
    told = set()
    for found in sorted(errors, key=lambda e: pointer(e.absolute_path)):
        for path, message in _places(found):
            # a schema may be violated twice in the same way, once for each missing key
            if (place := (pointer((*at, *path)), message)) not in told:
                told.add(place)
                yield {"path": place[0], "message": message}


@lru_cache(maxsize=256)
def _validator(schema: str) -> Draft202012Validator:
    """Check a schema, given as JSON text, once: that takes longer than all else in a decision."""
    loaded = json.loads(schema)
    Draft202012Validator.check_schema(loaded)
    return Draft202012Validator(loaded, registry=Registry())


def _places(error: ValidationError) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Say an error where a form would mark it: at the key that is missing or too much."""
    error = best_match([error]) or error
    path = tuple(error.absolute_path)
    schema: Any = error.schema
    value: Any = error.instance
    if error.validator == "required":
        for key in schema["required"]:
            if key not in value:
                yield (*path, key), "is required"
    elif error.validator == "additionalProperties" and schema["additionalProperties"] is False:
        known = schema.get("properties", {})
        patterns = schema.get("patternProperties", {})
        for key in value:
            if key not in known and not any(re.search(pattern, key) for pattern in patterns):
                yield (*path, key), f"is not known here: {', '.join(known) or 'no keys are'}"
    else:
        yield path, shortened(error.message)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0] or type(error).__name__
