"""What was measured, as a table for people and a plot without dependencies."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping


class Measure(NamedTuple):
    """One figure: what it means, and what it is to reach."""

    text: str
    form: str
    at_least: float | None = None
    at_most: float | None = None


MEASURES = {
    "ratio_50": Measure("cycles/s over the floor, 50 in flight, one worker", ".2f", at_least=0.3),
    "ratio_200": Measure("the same, 200 in flight", ".2f", at_least=0.3),
    "two_process_gain": Measure("cycles/s of two workers over one, 50 in flight", ".2f"),
    "hand_written_ratio_50": Measure("Celery by hand over the floor, 50 in flight", ".2f"),
    "enqueue_to_visible_ms_p50": Measure("enqueue to approval visible, ms", ".1f"),
    "decision_to_tool_ms_p50": Measure("decision to start of the tool, ms", ".1f"),
    "resume_floor_ms_p50": Measure("a bare AsyncRedisSaver resume to start of the tool, ms", ".1f"),
    "io_wall_ratio": Measure("500 runs of two 1 s waits: wall clock over the floor", ".2f", at_most=1.35),
    "io_rss_mb": Measure("the worker's most memory by then, MB", ".0f", at_most=250),
    "parked_bytes": Measure("bytes of a waiting run in Redis", ".0f", at_most=8192),
    "parked_keys": Measure("checkpoint keys of a waiting run", ".0f", at_most=1),
    "turn_1000_ratio": Measure("a turn on a 1,000-message thread over InMemorySaver", ".2f", at_most=2),
}


def table(figures: Mapping[str, float | None]) -> Table:
    """One line a figure."""
    made = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("figure", "is", "to reach", "", "what"):
        made.add_column(column, justify="right" if column == "is" else "left")
    for name, measure in _with_reach(figures).items():
        value = figures[name]
        shown = "left out" if value is None else f"{value:{measure.form}}"
        made.add_row(name, shown, _reach(measure), _verdict(measure, value), measure.text)
    return made


def _with_reach(figures: Mapping[str, float | None]) -> dict[str, Measure]:
    """The measures, with the goals that depend on others of this run."""
    measures = dict(MEASURES)
    if (bare := figures["resume_floor_ms_p50"]) is not None:
        name = "decision_to_tool_ms_p50"
        measures[name] = measures[name]._replace(at_most=round(1.3 * bare, 1))
    return measures


def _reach(measure: Measure) -> str:
    if measure.at_least is not None:
        return f">= {measure.at_least:g}"
    return "" if measure.at_most is None else f"<= {measure.at_most:g}"


def _verdict(measure: Measure, value: float | None) -> str:
    if value is None or measure.at_least is measure.at_most is None:
        return ""
    low = measure.at_least is not None and value < measure.at_least
    high = measure.at_most is not None and value > measure.at_most
    return "missed" if low or high else "reached"


def plot(bars: Iterable[tuple[str, float | None]], *, title: str) -> str:
    """A bar chart as SVG: values between 0 and 1, the floor being 1."""
    shown = [(name, value) for name, value in bars if value is not None]
    label, width, step = 250, 400, 30
    size = f"0 0 {label + width + 70} {60 + step * len(shown)}"
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{size}" font-family="sans-serif" font-size="13">',
        '<rect width="100%" height="100%" fill="#fff"/>',
        f'<text x="12" y="26" font-size="15" fill="#222">{title}</text>',
    ]
    for row, (name, value) in enumerate(shown):
        top, length = 45 + row * step, value * width
        colour = "#2a6f97" if name.startswith("Placet") else "#a9a9a9"
        lines += [
            f'<text x="{label - 10}" y="{top + 15}" text-anchor="end" fill="#222">{name}</text>',
            f'<rect x="{label}" y="{top}" width="{length:.0f}" height="{step - 8}" fill="{colour}"/>',
            f'<text x="{label + length + 8:.0f}" y="{top + 15}" fill="#222">{value:.2f}</text>',
        ]
    return "\n".join([*lines, "</svg>", ""])
