"""LangChain's own unit tests, run on our classes of the same name."""
