"""What a gate's policy may say: who may decide on its calls."""

from __future__ import annotations

from typing import Any

GROUP = "group:"
"""What a policy's reviewer begins with that stands for all of a group."""


def policy_error(policy: Any) -> str:
    """What is wrong with a gate's policy, empty if nothing is."""
    if not isinstance(policy, dict):
        return "must be a dict"
    for key in policy:
        if key != "reviewers":
            return f"{key!r} is not known here: reviewers"
    asked = policy.get("reviewers")
    if (
        not isinstance(asked, list)
        or not asked
        or not all(isinstance(one, str) and one.removeprefix(GROUP) for one in asked)
    ):
        return "reviewers: must list who may decide, such as ['alice', 'group:finance']"
    return ""
