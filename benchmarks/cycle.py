"""What an approval cycle costs through Placet, beside LangGraph alone in memory and Celery written by hand.

    uv run --group stack python benchmarks/cycle.py [--json] [--plot docs/performance.svg]

Every figure is taken in turns with what it is compared with, so that ratios hold on a busy machine.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from statistics import mean, median
from typing import TYPE_CHECKING, NamedTuple

from floor import Floor
from in_flight import median_ms, rate, seconds
from placet_workers import PlacetWorkers, peak_mb
from redis.asyncio import Redis
from report import MEASURES, plot, table
from rich.console import Console
from stack_server import stack_server

from placet.dev.embedded import embedded_server

if TYPE_CHECKING:
    from hand_written import HandWritten

Figures = dict[str, float | None]


class Ways(NamedTuple):
    """The ways to do the same work."""

    one: PlacetWorkers
    two: PlacetWorkers
    by_hand: HandWritten | None
    bare: Floor | None
    """LangGraph alone on AsyncRedisSaver."""


async def measure(*, scale: float) -> Figures:
    """All figures; `scale` makes everything smaller, to try the script out."""
    console = Console(stderr=True)
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="placet-bench-")))
        server = await stack.enter_async_context(embedded_server())
        redis = await stack.enter_async_context(Redis.from_url(server.url))
        one, two = [
            await stack.enter_async_context(
                PlacetWorkers.start(redis_url=server.url, folder=folder, count=count)
            )
            for count in (1, 2)
        ]
        by_hand, bare = None, None
        if (stack_url := await stack.enter_async_context(stack_server(folder))) is None:
            console.print("left out, for want of the dependency group 'stack': Celery by hand, bare resume")
        else:
            by_hand, bare = await _on_stack(stack, stack_url, folder)
        ways = Ways(one, two, by_hand, bare)
        figures: Figures = dict.fromkeys(MEASURES)
        for part in (_latency, _throughput, _turns, _waits):
            console.print(f"{part.__name__.strip('_')} …")
            figures |= await part(ways, scale)
        console.print("parked …")
        figures |= await _parked(ways.one, redis, scale)
    return figures


async def _on_stack(stack: AsyncExitStack, url: str, folder: Path) -> tuple[HandWritten, Floor]:
    from hand_written import HandWritten  # noqa: PLC0415 - needs what the group brings
    from langgraph.checkpoint.redis.aio import AsyncRedisSaver  # noqa: PLC0415

    by_hand = await stack.enter_async_context(HandWritten.start(redis_url=url, folder=folder))
    return by_hand, Floor(await stack.enter_async_context(AsyncRedisSaver.from_conn_string(url)))


async def _latency(ways: Ways, scale: float) -> Figures:
    """One cycle at a time."""
    cycles, bare = [], []
    for number in range(max(3, int(120 * scale))):
        times = await ways.one.cycle()
        resumed = await ways.bare.cycle() if ways.bare else None
        if number >= max(1, int(20 * scale)):  # the first ones load code
            cycles.append(times)
            bare += [] if resumed is None else [resumed]
    return {
        "enqueue_to_visible_ms_p50": median_ms([one.to_visible for one in cycles]),
        "decision_to_tool_ms_p50": median_ms([one.to_tool for one in cycles]),
        "resume_floor_ms_p50": median_ms(bare) if bare else None,
    }


async def _throughput(ways: Ways, scale: float) -> Figures:
    """Rounds of floor, one worker, two workers, by hand, floor again; ratios are within a round."""
    at_50, at_200, gains, hand = [], [], [], []
    few, many = max(60, int(400 * scale)), max(200, int(800 * scale))
    await rate(ways.two.cycle, count=few, at_once=50)
    for _ in range(max(1, int(3 * scale))):
        floors = [await rate(Floor().cycle, count=few, at_once=50)]
        one = await rate(ways.one.cycle, count=few, at_once=50)
        two = await rate(ways.two.cycle, count=few, at_once=50)
        by_hand = await rate(ways.by_hand.cycle, count=few // 2, at_once=50) if ways.by_hand else None
        floors.append(await rate(Floor().cycle, count=few, at_once=50))
        at_50.append(one / mean(floors))
        gains.append(two / one)
        hand += [] if by_hand is None else [by_hand / mean(floors)]
        floors = [await rate(Floor().cycle, count=many, at_once=200)]
        one = await rate(ways.one.cycle, count=many, at_once=200)
        floors.append(await rate(Floor().cycle, count=many, at_once=200))
        at_200.append(one / mean(floors))
    return {
        "ratio_50": median(at_50),
        "ratio_200": median(at_200),
        "two_process_gain": median(gains),
        "hand_written_ratio_50": median(hand) if hand else None,
    }


async def _turns(ways: Ways, scale: float) -> Figures:
    """A further turn on a thread of a thousand messages."""
    floor = Floor()
    threads = await floor.long_thread(), await ways.one.long_thread()
    ratios = []
    for _ in range(max(3, int(20 * scale))):
        alone = await seconds(floor.turn(threads[0]))
        ratios.append(await seconds(ways.one.turn(threads[1])) / alone)
    return {"turn_1000_ratio": median(ratios)}


async def _waits(ways: Ways, scale: float) -> Figures:
    """Many runs that wait."""
    count, floor, ratios = max(20, int(500 * scale)), Floor(), []
    for _ in range(2):
        alone = await seconds(floor.wait_all(count))
        ratios.append(await seconds(ways.one.wait_all(count)) / alone)
    return {"io_wall_ratio": median(ratios), "io_rss_mb": peak_mb(ways.one.pids[0])}


async def _parked(workers: PlacetWorkers, redis: Redis, scale: float) -> Figures:
    """What a run leaves in Redis while it waits for a person."""
    count = max(20, int(300 * scale))
    pattern = f"*{workers.namespace}*checkpoint:*"

    async def look() -> tuple[int, int]:
        keys = [key async for key in redis.scan_iter(match=pattern, count=1000)]
        return (await redis.info("memory"))["used_memory"], len(keys)

    await rate(workers.park, count=10, at_once=10)
    before = await look()
    await rate(workers.park, count=count, at_once=10)
    bytes_each, keys_each = ((now - then) / count for now, then in zip(await look(), before, strict=True))
    return {"parked_bytes": bytes_each, "parked_keys": keys_each}


def main() -> None:
    """Measure, then print a table, or with `--json` one object."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="end with one JSON object")
    parser.add_argument("--plot", type=Path, help="write the plot there, as SVG")
    parser.add_argument("--scale", type=float, default=1.0, help="0.1 to try it out")
    args = parser.parse_args()
    figures = asyncio.run(measure(scale=args.scale))
    if args.plot:
        bars = [
            ("LangGraph alone, in memory", 1.0),
            ("Placet, 50 in flight", figures["ratio_50"]),
            ("Placet, 200 in flight", figures["ratio_200"]),
            ("Celery by hand, 50 in flight", figures["hand_written_ratio_50"]),
        ]
        args.plot.write_text(plot(bars, title="Approval cycles a second, as a share of the floor"))
    if args.json:
        print(json.dumps({name: None if v is None else round(v, 3) for name, v in figures.items()}))
    else:
        Console().print(table(figures))


if __name__ == "__main__":
    main()
