"""The Telegram bot: cards with inline buttons, answers as replies."""

from .channel import TelegramChannel, channel

__all__ = ["TelegramChannel", "channel"]
