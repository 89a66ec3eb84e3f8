"""The deployed agents: from `langgraph.json` to graphs, and what is known of a graph."""
