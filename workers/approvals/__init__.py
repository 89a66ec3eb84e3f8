"""From a pause to approval requests, and from a decision to the answer that a graph is resumed with."""
