"""Names of all keys in Redis, for Python and for the Lua scripts, under one hash tag.

A later partition by thread would change this file alone: everything else asks it for names.
"""

from __future__ import annotations

from dataclasses import dataclass

# an id stands last, whatever it holds: no id can name another record's key
_TEMPLATES = {
    # counters and sets over everything
    "fence": "fence",  # string: the last fencing token given, never deleted
    "leases": "leases",  # zset: thread id -> lease expiry, ms
    "timers": "timers",  # zset: run id -> due, ms (start_at, wake_at)
    "deadlines": "deadlines",  # zset: run id -> when its timeout is over, ms; not while it waits for people
    "runs": "runs",  # zset: run id -> created, ms
    "runs_in": "runs:in:{}",  # zset by status: run id -> created, ms
    "ended": "ended",  # zset: run id -> when it ended, ms
    "idle": "idle",  # zset: thread id -> when the last of its runs ended, ms
    "swept": "swept",  # hash: how far the indexes were gone round
    "unmatched": "unmatched:{}",  # zset by queue: run id -> since when it waits for another deployment, ms
    "builds": "builds:{}",  # zset by queue: build id of a worker -> last seen, ms
    "graph": "graph:{}",  # hash by fingerprint's digest: fingerprint, versions, runs (how many refer to it)
    "outbox": "outbox:{}",  # zset by queue: run id -> when to send its wake-up (again), ms
    "approvals": "approvals",  # zset: approval id -> created, ms
    "approvals_in": "approvals:in:{}",  # zset by status: approval id -> created, ms
    "approvals_stream": "approvals:stream",  # stream: what happened to approval requests
    "stops": "stops",  # stream: runs that a worker is to stop
    "workers": "workers",  # zset: worker id -> last seen, ms
    "worker": "worker:{}",  # hash: what a worker says of itself
    "suspects": "suspects:{}",  # set by worker: runs it took that have outlived a worker
    # one run
    "run": "run:{}",  # hash
    "run_events": "run-events:{}",  # stream, ids are 1-0, 2-0, …
    "run_events_copy": "run-events-copy",  # stream, while a script makes a smaller copy of one
    "run_approvals": "run-approvals:{}",  # zset: approval id -> created, ms
    "run_refusals": "run-refusals:{}",  # hash: fleet that could not take it on -> until when it is not asked
    "run_pause": "run-pause:{}",  # list: approval ids of the pause the run is in, in order
    "run_ledger": "run-ledger:{}",  # hash: call -> its attempts, JSON; call:attempt -> result; verdict:name
    "run_counts": "run-counts:{}",  # hash: run:NAME -> its calls, thread:NAME -> its part of its thread's
    "run_tries": "run-tries:{}",  # hash: a call -> its attempts, JSON; model:key -> which it stays with
    # one thread
    "thread": "thread:{}",  # hash: last_run, repair, repair_run, rollback, open, kept, deleted_at, expired_at
    "thread_counts": "thread-counts:{}",  # hash: NAME -> calls in the thread
    "thread_runs": "thread-runs:{}",  # zset: run id -> created, ms
    "thread_queue": "thread-queue:{}",  # list: run ids, the first is the thread's current run
    "lease": "lease:{}",  # hash: token, run_id, owner
    "checkpoint": "checkpoint:{}",  # hash: the checkpointer's
    # limits of calls over time
    "counted": "counted:{}",  # string by a call's own id, for a minute: it was counted
    "window_calls": "window-calls:{}",  # list: when each call was made, ms
    "window_line": "window-line:{}",  # zset: a call that waits -> when there is room for it, ms
    # the agents' store; a namespace is its labels, each ended by a zero byte
    "store_namespaces": "store:namespaces",  # zset, all scores 0: namespaces that hold something
    "store_sequence": "store:sequence",  # string: counts the items ever put
    "store_expiries": "store:expiries",  # zset: item -> expiry, microseconds
    "store_items": "store-items:{}",  # hash by namespace: key -> item
    "store_order": "store-order:{}",  # zset by namespace: key -> its number in the sequence
    # one model
    "breaker": "breaker:{}",  # hash: failures, open_until; trial:call -> counts until, token, run
    # one approval request
    "approval": "approval:{}",  # hash
    "cards": "cards:{}",  # hash: a place that shows it -> the message there, JSON
    # one chat platform
    "delivery": "delivery:{}",  # string by a click's id, for an hour: it was recorded
    "cards_due": "cards-due:{}",  # zset: approval id -> when its cards are to be looked at, ms
    "cards_taken": "cards-taken:{}",  # hash: approval id -> who looks at them; ID:again -> look once more
}


@dataclass(frozen=True, slots=True)
class Keys:
    """Key names of one namespace: `keys("run", run_id)`."""

    namespace: str = "placet"

    @property
    def prefix(self) -> str:
        """What all keys begin with; the braces are Redis Cluster's hash tag."""
        return f"{{{self.namespace}}}:"

    def __call__(self, name: str, *ids: str) -> str:
        """Name one key; `ids` fills the template's blank."""
        # plain replacement: an id may hold braces itself
        template = _TEMPLATES[name]
        return self.prefix + (template.replace("{}", ids[0], 1) if ids else template)


def with_keys(script: str) -> str:
    """A script behind Lua functions that name the keys it uses: `K.run(id)`, with the prefix in `KEYS[1]`."""
    lines = ["local P = KEYS[1]", "local K = {}"]
    for name, template in _TEMPLATES.items():
        head, _, tail = template.partition("{}")
        if f"K.{name}" not in script:
            continue  # each takes its time in every call of the script
        if "{}" in template:
            lines.append(f"function K.{name}(id) return P..'{head}'..id..'{tail}' end")
        else:
            lines.append(f"K.{name} = P..'{head}'")
    return "\n".join((*lines, script))
