"""Placet on one machine for those who try it: embedded server, playground, demo."""
