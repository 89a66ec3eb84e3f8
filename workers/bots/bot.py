"""One bot process: cards of one channel kept true, and what people click there taken."""

from __future__ import annotations

import asyncio
import signal
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, cast

import structlog

from ..approvals.reviewers import Reviewers
from ..client import Placet
from ..dispatch import Dispatcher
from ..errors import InvalidSettings
from ..logs import configure_logs
from ..named_functions import is_function, load_function
from ..settings import Settings
from ..state.cards import Cards, Deliveries
from ..state.connection import Connection
from .delivery import Delivery
from .reviews import Reviews
from .routes import Routes

if TYPE_CHECKING:
    from .channel import Channel

LIBRARIES = {
    "slack": "slack_bolt",
    "telegram": "aiogram",
    "discord": "discord",
    "webhook": "standardwebhooks",
    "notify": "apprise",
}
"""The channels that come with Placet, and what each needs; its extra has the channel's name."""
ONE_WAY = ("notify",)
"""Where nobody decides, so that nobody has to be known."""

log = structlog.get_logger(__name__)


async def serve(name: str) -> int:
    """Serve a channel until SIGTERM or SIGINT: one of `LIBRARIES`, or `package.module:factory` of another.

    Raises:
        InvalidSettings: when a setting cannot be used; it names the setting.
    """
    settings = Settings.from_env()
    configure_logs(settings)
    channel = _channel(name)
    routes = Routes.read(settings.routes, channel=channel.name)
    if not settings.reviewers and name not in ONE_WAY:
        raise InvalidSettings("PLACET_REVIEWERS: must say who may decide: a bot takes nobody's word for it")
    Reviewers(settings.reviewers).check()
    async with Connection.open(settings) as connection:
        dispatcher = Dispatcher(settings=settings)
        placet = Placet(connection=connection, dispatcher=dispatcher)
        delivery = Delivery(placet=placet, cards=Cards(connection), channel=channel, routes=routes)
        log.info("bot.started", channel=channel.name, destinations=sorted(set(routes.led_to(channel.name))))
        try:
            await _until_told(channel, Reviews(placet=placet, deliveries=Deliveries(connection)), delivery)
        finally:
            await dispatcher.aclose()
    log.info("bot.stopped", channel=channel.name)
    return 0


async def _until_told(channel: Channel, reviews: Reviews, delivery: Delivery) -> None:
    """Serve until a signal says stop, or something fails."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(channel.serve(reviews)), tasks.create_task(delivery.run())]
            stopped = tasks.create_task(stop.wait())
            await asyncio.wait([stopped, *running], return_when=asyncio.FIRST_COMPLETED)
            for task in (stopped, *running):
                task.cancel()
    except* Exception as group:  # noqa: BLE001 - raised again, the first of them
        raise _first(group) from None


def _first(group: ExceptionGroup[Exception]) -> Exception:
    first = group.exceptions[0]
    return _first(first) if isinstance(first, ExceptionGroup) else first


def _channel(name: str) -> Channel:
    if is_function(name):
        return cast("Channel", load_function(name, "CHANNEL")())
    if name not in LIBRARIES:
        known = ", ".join(LIBRARIES)
        raise InvalidSettings(f"CHANNEL: {name!r} is none of {known}, and no package.module:factory")
    if find_spec(LIBRARIES[name]) is None:
        raise InvalidSettings(f"placet bot {name} needs its library: pip install 'placet[{name}]'")
    return cast("Channel", import_module(f".{name}", __package__).channel())
