"""Calls of models and tools, counted as they are made."""
