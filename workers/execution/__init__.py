"""One segment of a run: claim, drive the graph, commit; and what crashes leave."""
