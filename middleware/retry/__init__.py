"""Calls that failed: tried again, or another model is asked."""
