from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import typer

from placet.cli.arguments import read_json, read_object, read_seconds, read_time

if TYPE_CHECKING:
    from pathlib import Path


def test_json_comes_from_the_text_a_file_or_standard_input(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "input.json").write_text('{"a": "ü"}', encoding="utf-8")
    monkeypatch.setattr("sys.stdin", io.StringIO("[1, 2]"))
    assert read_json('"hi"', "--input") == "hi"
    assert read_json(f"@{tmp_path}/input.json", "--input") == {"a": "ü"}
    assert read_json("-", "--input") == [1, 2]


@pytest.mark.parametrize(("text", "value"), [("false", False), ("0", 0), ('""', ""), ("null", None)])
def test_falsy_json_stays_what_it_is(text: str, value: object) -> None:
    assert read_json(text, "--value") is value or read_json(text, "--value") == value


@pytest.mark.parametrize("text", ["{", "", "NaN", "[Infinity]", "@/no/such/file", "'x'"])
def test_what_is_not_json_is_refused_with_the_options_name(text: str) -> None:
    with pytest.raises(typer.BadParameter) as caught:
        read_json(text, "--input")
    assert "--input" in caught.value.format_message()


def test_what_is_nested_too_deeply_is_refused_with_the_options_name() -> None:
    with pytest.raises(typer.BadParameter, match="nested too deeply") as caught:
        read_json("[" * 100_000 + "]" * 100_000, "--input")
    assert "--input" in caught.value.format_message()


@pytest.mark.parametrize("text", ["9999999999999d", "9" * 400 + "d"])
def test_a_time_out_of_this_world_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="too far away"):
        read_time(text, "--start-at")


def test_an_object_is_nothing_else() -> None:
    assert read_object(None, "--config") is None
    assert read_object("{}", "--config") == {}
    with pytest.raises(typer.BadParameter, match="object"):
        read_object("[]", "--config")


def test_a_time_is_a_duration_or_iso_8601() -> None:
    assert read_time("90s", "--start-at") == timedelta(seconds=90)
    assert read_time("1.5h", "--start-at") == timedelta(minutes=90)
    assert read_time("2027-01-01T12:00:00+02:00", "--start-at") == datetime(2027, 1, 1, 10, tzinfo=UTC)
    local = read_time("2027-01-01T12:00", "--start-at")
    assert isinstance(local, datetime)
    assert local.tzinfo is not None
    with pytest.raises(typer.BadParameter, match="ISO 8601"):
        read_time("tomorrow", "--start-at")
    with pytest.raises(typer.BadParameter, match="duration"):
        read_seconds("2027-01-01", "--timeout")
