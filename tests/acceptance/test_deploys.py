"""Runs that one deployment has left meet another: they go on in it, or wait as they are for one that fits."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from fleet import AGENTS, PATIENCE, human, paused, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from fleet import Fleet, WorkerProcess
    from placet import Approval, Placet, Run

APPROVE = {"type": "approve"}
REJECT = {"type": "reject", "message": "no"}
EDIT = {"type": "edit", "edited_action": {"name": "pay", "args": {"to": "eve", "amount": 5}}}
YES = {"type": "answer", "value": "yes"}

CHANGED: dict[str, tuple[dict[str, Any], str]] = {
    "gate_removed": (REJECT, r"tool 'pay' waits for a decision \(batched\), and no gate asks"),
    "per_call_gate_removed": (REJECT, r"tool 'pay' waits for a decision \(per_call\), and no gate asks"),
    "gate_renamed": (APPROVE, "node 'Gate.after_model', where it waits, is gone"),
    "gate_moved_to_another_tool": (REJECT, "tool 'pay' waits for a decision"),
    "to_per_call": (REJECT, "in mode batched, and its gate is per_call now"),
    "to_batched": (REJECT, "in mode per_call, and its gate is batched now"),
    "decision_refused": (APPROVE, "does not take the decision 'approve' any more"),
    "our_gate_removed": (REJECT, r"tool 'pay' waits for a decision \(batched\), and no gate asks"),
    "our_gate_to_per_call": (REJECT, "in mode batched, and its gate is per_call now"),
    "tool_removed": (APPROVE, "tool 'pay', which the model has called, is gone"),
    "sibling_removed": (APPROVE, "tool 'look_up', which the model has called, is gone"),
    "subagent_gate_removed": (REJECT, "in 'tools/delegate': tool 'pay' waits for a decision"),
    "node_renamed": (YES, "node 'ask', where it waits, is gone; there are: first, question"),
    "key_removed": (YES, "state key 'notes' has a value, and the graph has no such key"),
    "key_retyped": (YES, "its state cannot be read: "),
    "whole_retyped": (YES, "its state does not fit the graph's schema: .*amount"),
    "before_node_removed": (APPROVE, "node 'act', where it waits, is gone"),
    "after_next_removed": (APPROVE, "node 'last', where it waits, is gone"),
    "subgraph_node_renamed": (YES, "in 'outer': node 'ask', where it waits, is gone"),
    "subgraph_gone": (YES, "node 'outer', where it waits, is no longer a graph"),
    "join_renamed": (YES, r"the edge 'left\+right:join', which waits for its nodes, is gone"),
    "function_renamed": (YES, "what leads to the node where it waits has changed"),
    "agent_removed": (YES, "no agent 'agent_removed'; there are: "),
}
HARMLESS: dict[str, dict[str, Any]] = {
    "gate_to_ours": APPROVE,
    "per_call_gate_to_ours": APPROVE,
    "prompt": APPROVE,
    "tool_added": APPROVE,
    "middleware_added": APPROVE,
    "decisions_changed": APPROVE,
    "key_added": YES,
    "node_added": YES,
    "class_extended": YES,
    "stop_removed": APPROVE,
    "stop_added": YES,
    "subgraph_changed_elsewhere": YES,
}


class Deployments:
    """Two deployments of one project; `deployed_agents.py` says in what they differ."""

    def __init__(self, fleet: Fleet, folder: Path) -> None:
        self._fleet = fleet
        self._folder = folder
        both = [*CHANGED, *HARMLESS, "running_node_renamed", "running_node_added"]
        graphs = {name: f"deployed_agents:{name}" for name in both}
        graphs["agent_removed"] = graphs["key_added"]
        self._write("old", graphs)
        del graphs["agent_removed"]
        self._write("new", {**graphs, "new_only": "deployed_agents:new_only"})
        self._write("broken", {"a": "deployed_agents:nothing"})

    def _write(self, name: str, graphs: dict[str, str]) -> None:
        file = self._folder / f"{name}.json"
        file.write_text(json.dumps({"dependencies": [str(AGENTS.parent)], "graphs": graphs}))

    def env(self, name: str, build: str = "") -> dict[str, str]:
        """What a worker of it is started with."""
        file = str(self._folder / f"{name}.json")
        return {"PLACET_CONFIG": file, "PLACET_TEST_DEPLOYMENT": name, "PLACET_BUILD_ID": build}

    async def start(self, name: str, build: str = "") -> WorkerProcess:
        (worker,) = await self._fleet.start(1, **self.env(name, build))
        return worker


@pytest.fixture
def deployments(fleet: Fleet, tmp_path: Path) -> Deployments:
    return Deployments(fleet, tmp_path)


async def enqueue(placet: Placet, agent: str) -> Run:
    return await placet.enqueue(agent, human("go"), run_id=agent)


async def refused(placet: Placet, run_id: str) -> Run:
    """Wait until a worker has found that its graph does not fit."""

    async def told() -> Run | None:
        run = await placet.get(run_id)
        assert not run.ended, (run.id, run.status, run.error)
        return run if run.incompatible and run.status != "running" else None

    run: Run = await wait_until(told)
    return run


async def pause_all(placet: Placet, decisions: dict[str, dict[str, Any]]) -> dict[str, Approval]:
    """Enqueue a run of each agent; the request that each has paused for."""
    runs = [await enqueue(placet, agent) for agent in decisions]
    requests = {run.id: await paused(placet, run) for run in runs}
    assert {name: len(asked) for name, asked in requests.items()} == dict.fromkeys(decisions, 1)
    return {name: asked[0] for name, asked in requests.items()}


async def test_a_deployment_takes_on_what_fits_it_and_leaves_the_rest_as_it_was(
    fleet: Fleet, placet: Placet, deployments: Deployments
) -> None:
    """The rest goes on once the old deployment is back."""
    old = await deployments.start("old")
    decisions = {agent: decision for agent, (decision, _) in CHANGED.items()} | HARMLESS
    requests = await pause_all(placet, decisions)
    old.kill()
    before = {agent: await placet.get(agent) for agent in CHANGED}
    for agent, request in requests.items():
        await placet.decide(request.id, decisions[agent], reviewer="ann")
    broken = fleet.start_one(**deployments.env("broken"))
    assert await broken.ended() != 0
    assert {(await placet.get(agent)).status for agent in decisions} == {"pending"}

    new = await deployments.start("new")
    for agent in HARMLESS:
        run = await placet.wait(agent, timeout=PATIENCE)
        assert (agent, run.status, run.error) == (agent, "success", None)
    reasons = {agent: (await refused(placet, agent)).incompatible for agent in CHANGED}
    assert {a: r for a, r in reasons.items() if not re.search(CHANGED[a][1], r)} == {}
    new.kill()
    for agent in CHANGED:
        run, approval = await placet.get(agent), await placet.approval(requests[agent].id)
        assert (run.status, run.attempt, run.segment) == ("pending", 0, before[agent].segment)
        assert (approval.status, approval.outcome, approval.decided_by) == ("decided", "none", "ann")
        assert approval.incompatible == run.incompatible
    reason = reasons["node_renamed"]
    assert reason in await said(fleet, "runs", "show", "node_renamed")
    assert reason in await said(fleet, "approvals", "show", requests["node_renamed"].id)
    assert f"{len(CHANGED)} waiting for another deployment" in await said(fleet, "doctor")
    paid, acted = did(requests, HARMLESS, decisions)
    assert counts(fleet) == (paid, acted + 1)  # one stops after it has acted

    await deployments.start("old")
    for agent in CHANGED:
        run = await placet.wait(agent, timeout=PATIENCE)
        assert (agent, run.status, run.error, run.incompatible) == (agent, "success", None, "")
    assert counts(fleet) == did(requests, decisions, decisions)
    assert len(await placet.approvals(status=None, limit=1000)) == len(decisions)


async def said(fleet: Fleet, *args: str) -> str:
    """What the command line prints."""
    command = [sys.executable, "-m", "placet.cli", *args]
    done = await asyncio.to_thread(subprocess.run, command, env=fleet.env(), capture_output=True, check=False)
    return done.stdout.decode()


def did(
    requests: dict[str, Approval], agents: Iterable[str], decisions: dict[str, dict[str, Any]]
) -> tuple[int, int]:
    """How often these agents have paid and acted, once they are done as it was decided."""
    tools = [agent for agent in agents if requests[agent].tool == "pay"]
    return len([agent for agent in tools if decisions[agent] is APPROVE]), len([*agents]) - len(tools)


def counts(fleet: Fleet) -> tuple[int, int]:
    return len(fleet.effects("pay")), len(fleet.effects("act"))


async def test_two_deployments_at_once_take_each_what_fits_it(
    fleet: Fleet, placet: Placet, deployments: Deployments
) -> None:
    """Fifty runs, whose messages either deployment may get, and an agent that only one has."""
    old = await deployments.start("old")
    agents = ["to_per_call", "gate_removed", "node_renamed", "prompt", "key_added"] * 10
    runs = [await placet.enqueue(agent, human("go")) for agent in agents]
    requests = [(await paused(placet, run))[0] for run in runs]
    unknown = await placet.wait((await enqueue(placet, "new_only")).id, timeout=PATIENCE)
    assert unknown.error is not None
    assert unknown.error["type"] == "UnknownAgent"  # nobody has it: a name that is misspelt is told at once
    new = await deployments.start("new")
    for number, request in enumerate(requests):
        tool = APPROVE if number % 2 else REJECT
        await placet.decide(request.id, tool if request.tool == "pay" else YES, reviewer="ann")
    started = [await placet.enqueue("new_only", human("go")) for _ in range(10)]
    ended = [await placet.wait(run.id, timeout=PATIENCE) for run in (*runs, *started)]
    assert {(run.status, run.incompatible) for run in ended} == {("success", "")}
    tools = [number for number, request in enumerate(requests) if request.tool == "pay"]
    assert len(fleet.effects("pay")) == len([number for number in tools if number % 2])
    assert len(fleet.effects("act")) == len(ended) - len(tools)
    assert len(await placet.approvals(status=None, limit=1000)) == len(runs)
    where: dict[str, set[int]] = {}
    for run in ended:
        where.setdefault(run.agent, set()).add(int((run.worker or "").rpartition(":")[2]))
    assert {where[agent] == {old.pid} for agent in ("to_per_call", "gate_removed", "node_renamed")} == {True}
    assert where["new_only"] == {new.pid}
    assert where["prompt"] | where["key_added"] <= {old.pid, new.pid}


async def test_a_build_keeps_the_runs_that_paused_on_it(
    fleet: Fleet, placet: Placet, deployments: Deployments
) -> None:
    first = await deployments.start("old", build="1")
    runs = [await placet.enqueue("prompt", human("go")) for _ in range(6)]
    requests = [(await paused(placet, run))[0] for run in runs]
    second = await deployments.start("old", build="2")
    for request in requests[:5]:
        await placet.decide(request.id, APPROVE, reviewer="ann")
    for run in runs[:5]:
        assert (await placet.wait(run.id, timeout=PATIENCE)).status == "success"
    assert {one.pid for one in fleet.effects("pay")} == {first.pid}
    first.kill()
    await placet.decide(requests[5].id, APPROVE, reviewer="ann")
    run = await placet.wait(runs[5].id, timeout=PATIENCE)
    assert (run.status, run.build, fleet.effects("pay")[-1].pid) == ("success", "1", second.pid)


async def test_a_run_that_was_killed_half_way_is_compared_too(
    fleet: Fleet, placet: Placet, deployments: Deployments
) -> None:
    """It has never paused: there is its checkpoint alone to compare."""
    old = await deployments.start("old")
    runs = [
        await placet.enqueue(name, human(name)) for name in ("running_node_renamed", "running_node_added")
    ]
    await fleet.started("wait", 2)
    old.kill()
    new = await deployments.start("new")
    fleet.open_barrier("running_node_added")
    fits = await placet.wait(runs[1].id, timeout=PATIENCE)
    assert (fits.status, [one.pid for one in fleet.effects("act")]) == ("success", [new.pid])
    run = await refused(placet, runs[0].id)
    assert run.incompatible == "node 'wait', where it waits, is gone; there are: first, pause"
    new.kill()
    old = await deployments.start("old")
    fleet.open_barrier("running_node_renamed")
    assert (await placet.wait(run.id, timeout=PATIENCE)).status == "success"
    assert [one.pid for one in fleet.effects("act")] == [new.pid, old.pid]
