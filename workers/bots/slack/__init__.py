"""Approval requests on Slack."""

from __future__ import annotations

import os

from ...errors import InvalidSettings
from ..listening import read_address
from .channel import SlackChannel

API_URL = "https://slack.com/api/"


def channel() -> SlackChannel:
    """Make the channel that the environment's settings describe.

    Raises:
        InvalidSettings: naming what is missing or wrong, and where Slack has it.
    """
    token = _needed("PLACET_SLACK_BOT_TOKEN", "xoxb-", "OAuth & Permissions")
    if os.environ.get("PLACET_SLACK_APP_TOKEN"):
        app_token = _needed("PLACET_SLACK_APP_TOKEN", "xapp-", "Basic Information, App-Level Tokens")
        secret, address = "", None
    else:
        app_token = ""
        secret = os.environ.get("PLACET_SLACK_SIGNING_SECRET", "")
        if not secret:
            raise InvalidSettings(
                "PLACET_SLACK_APP_TOKEN: must be set for Socket Mode, or PLACET_SLACK_SIGNING_SECRET for HTTP"
                " (docs/bots/slack.md)"
            )
        listen = "PLACET_SLACK_LISTEN"
        address = read_address(os.environ.get(listen) or "127.0.0.1:8766", listen)
    url = os.environ.get("PLACET_SLACK_API_URL") or API_URL
    if not url.startswith(("https://", "http://127.0.0.1", "http://localhost")):
        raise InvalidSettings("PLACET_SLACK_API_URL: must begin with https://")
    return SlackChannel(
        bot_token=token,
        app_token=app_token,
        signing_secret=secret,
        address=address,
        api_url=url if url.endswith("/") else f"{url}/",
    )


def _needed(name: str, begins: str, where: str) -> str:
    value = os.environ.get(name, "")
    if not value.startswith(begins):
        raise InvalidSettings(f"{name}: must begin with {begins} (in the app's settings, {where})")
    return value
