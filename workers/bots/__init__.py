"""Bots: processes that show approval requests on chat platforms and take the decisions given there."""
