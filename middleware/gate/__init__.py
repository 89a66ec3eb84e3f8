"""A person decides about tool calls before they run."""
