"""Checkpointers and stores for LangGraph on Redis."""
