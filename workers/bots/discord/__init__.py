"""Approvals on Discord: messages with buttons and forms, over a gateway connection of `discord.py`."""

from .channel import DiscordChannel, channel

__all__ = ["DiscordChannel", "channel"]
