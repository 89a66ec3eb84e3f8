"""The command line against a real server and real worker processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import sys
from asyncio.subprocess import PIPE
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from fleet import AGENTS, PATIENCE, wait_until

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from pathlib import Path

    from brokers import RabbitBroker

    from fleet import Fleet

INPUT = json.dumps({"messages": [{"role": "user", "content": "go"}]})


async def start(*args: str, env: dict[str, str], cwd: Path | None = None) -> Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "placet.cli", *args, env=env, cwd=cwd, stdin=PIPE, stdout=PIPE, stderr=PIPE
    )


async def cli(fleet: Fleet, *args: str, stdin: str = "") -> tuple[int | None, str, str]:
    process = await start(*args, env=fleet.env())
    async with asyncio.timeout(PATIENCE):
        out, err = await process.communicate(stdin.encode())
    return process.returncode, out.decode(), err.decode()


async def cli_json(fleet: Fleet, *args: str, stdin: str = "") -> list[dict[str, Any]]:
    status, out, err = await cli(fleet, *args, "--json", stdin=stdin)
    assert status == 0, err
    return [json.loads(line) for line in out.splitlines()]


async def error(fleet: Fleet, *args: str) -> tuple[int | None, dict[str, Any]]:
    status, out, err = await cli(fleet, *args, "--json")
    assert out == ""
    return status, json.loads(err)["error"]


async def test_a_run_is_enqueued_decided_and_watched(fleet: Fleet) -> None:
    await fleet.start()
    [run] = await cli_json(fleet, "enqueue", "batched", "--input", "-", "--thread", "t-1", stdin=INPUT)
    waited = await cli_json(fleet, "runs", "watch", run["id"], "--until", "pause")
    assert waited[-1]["type"] == "run.interrupted"
    status, busy = await error(
        fleet, "enqueue", "plain", "--input", INPUT, "--thread", "t-1", "--multitask-strategy", "reject"
    )
    assert (status, busy["type"], busy["run_id"]) == (1, "ThreadBusy", run["id"])

    asked = await cli_json(fleet, "approvals", "list", "--run", run["id"])
    pay, mail = sorted(asked, key=lambda approval: approval["index"])
    _, shown, _ = await cli(fleet, "approvals", "show", pay["id"])
    assert f"placet approve {pay['id']} --seen {pay['digest']}" in shown
    _, table, _ = await cli(fleet, "approvals", "list")
    assert 'pay(to="ann", amount=10)' in table

    status, refused = await error(fleet, "approve", pay["id"], "--seen", "other")
    assert (status, refused["type"], refused["approval_id"]) == (1, "ChangedSinceSeen", pay["id"])
    args = json.dumps(pay["args"] | {"amount": 5})
    _, said, _ = await cli(
        fleet, "edit", pay["id"], "--args", args, "--reviewer", "ann", "--seen", pay["digest"]
    )
    assert said.startswith('edited and approved by ann: pay(to="ann", amount=10) -> ')
    status, late = await error(fleet, "approve", pay["id"], "--reviewer", "bob")
    assert (status, late["type"], late["decided_by"], late["decision"]) == (
        1,
        "AlreadyDecided",
        "ann",
        "edit",
    )
    [rejected] = await cli_json(fleet, "reject", mail["id"], "--message", "no", "--reviewer", "bob")
    assert rejected["decision"] == {"type": "reject", "message": "no"}

    events = await cli_json(fleet, "runs", "watch", run["id"])
    assert events[-1]["data"]["status"] == "success"
    [ended] = await cli_json(fleet, "runs", "show", run["id"])
    assert ended["status"] == "success"
    assert [run["id"]] == [one["id"] for one in await cli_json(fleet, "runs", "list", "--status", "success")]
    assert await cli_json(fleet, "approvals", "list") == []
    assert [effect.args["amount"] for effect in fleet.effects("pay")] == [5]

    await cli_json(fleet, "threads", "delete", "t-1")
    status, gone = await error(fleet, "threads", "delete", "t-2")
    assert (status, gone["type"]) == (1, "NotFound")


async def test_only_listed_reviewers_decide(fleet: Fleet, tmp_path: Path) -> None:
    listed = tmp_path / "reviewers.yaml"
    listed.write_text("reviewers: {alice: {identities: ['slack:U1']}}")
    await fleet.start()
    (run,) = await cli_json(fleet, "enqueue", "batched", "--input", INPUT)
    fleet.settings = replace(fleet.settings, reviewers=str(listed))
    async with fleet.connect() as placet:
        await placet.wait(run["id"], until="pause")
    (asked, *_) = await cli_json(fleet, "approvals", "list", "--run", run["id"])
    status, told = await error(fleet, "reject", asked["id"], "--reviewer", "mallory")
    assert (status, told["type"], told["reviewer"]) == (1, "NotAllowed", "mallory")
    assert "mallory is not listed in" in told["message"]
    (shown,) = await cli_json(fleet, "approvals", "show", asked["id"])
    assert (shown["status"], shown["cards"]) == ("pending", [])
    (decided,) = await cli_json(fleet, "reject", asked["id"], "--reviewer", "slack:U1")
    assert decided["decided_by"] == "alice"
    listed.write_text("reviewers: [")
    checks = [json.loads(line) for line in (await cli(fleet, "doctor", "--json"))[1].splitlines()]
    (failed,) = (check for check in checks if check["status"] == "fail")
    assert (failed["name"], "no YAML" in failed["found"]) == ("reviewers", True)


async def test_a_bot_says_what_it_lacks(tmp_path: Path, redis_url: str) -> None:
    (tmp_path / "own.py").write_text(
        "import asyncio\n"
        "class Wall:\n"
        "    name = 'wall'\n"
        "    async def serve(self, reviews):\n"
        "        raise ValueError('no wall')\n"
        "    async def post(self, destination, card):\n"
        "        return ''\n"
        "    update = post\n"
    )
    (tmp_path / "routes.yaml").write_text("routes:\n- to: wall:north\n")
    (tmp_path / "reviewers.yaml").write_text("reviewers: {alice: }")
    env = {**os.environ, "PLACET_REDIS_URL": redis_url}
    for channel, more, says in (
        ("pigeon", {}, "CHANNEL: 'pigeon' is none of slack, "),
        ("own:nothing", {}, "CHANNEL: own:nothing: AttributeError: module 'own' has no attribute 'nothing'"),
        ("own:Wall", {}, "PLACET_ROUTES: must name a YAML file"),
        ("own:Wall", {"PLACET_ROUTES": "no.yaml"}, "PLACET_ROUTES: no.yaml: No such file"),
        ("own:Wall", {"PLACET_ROUTES": "routes.yaml"}, "PLACET_REVIEWERS: must say who may decide"),
        ("own:Wall", {"PLACET_ROUTES": "routes.yaml", "PLACET_REVIEWERS": "routes.yaml"}, "reviewers: Field"),
        (
            "own:Wall",
            {"PLACET_ROUTES": "routes.yaml", "PLACET_REVIEWERS": "reviewers.yaml"},
            "ValueError: no wall",
        ),
    ):
        process = await start("bot", channel, env={**env, **more}, cwd=tmp_path)
        async with asyncio.timeout(PATIENCE):
            _, err = await process.communicate()
        assert process.returncode == 1
        assert says in err.decode().splitlines()[-1]
        assert "Traceback" not in err.decode()


async def test_an_answer_may_be_falsy(fleet: Fleet) -> None:
    await fleet.start()
    [run] = await cli_json(fleet, "enqueue", "subgraph", "--input", "{}")
    await cli_json(fleet, "runs", "watch", run["id"], "--until", "pause")
    [asked] = await cli_json(fleet, "approvals", "list")
    assert (asked["kind"], asked["value"]) == ("question", "inner?")
    _, said, _ = await cli(fleet, "answer", asked["id"], "--value", "false", "--reviewer", "ann")
    assert said == f"answered by ann: inner? -> false [run {run['id']}]\n"
    await cli_json(fleet, "runs", "watch", run["id"])
    [ended] = await cli_json(fleet, "runs", "show", run["id"])
    assert ended["result"]["answer"] is False


async def test_enqueue_waits_for_the_end(fleet: Fleet) -> None:
    await fleet.start()
    [run] = await cli_json(
        fleet, "enqueue", "plain", "--input", INPUT, "--wait", "--timeout", "1m", "--run-timeout", "2m"
    )
    assert (run["status"], run["timeout_seconds"]) == ("success", 120)
    status, out, _ = await cli(fleet, "enqueue", "failing_model", "--input", INPUT, "--wait", "--json")
    assert (status, json.loads(out)["error"]["message"]) == (1, "no model")


async def test_a_failed_run_says_why(fleet: Fleet) -> None:
    await fleet.start()
    [run] = await cli_json(fleet, "enqueue", "failing_model", "--input", INPUT)
    status, out, _ = await cli(fleet, "runs", "watch", run["id"])
    assert status == 1
    assert out.splitlines()[-1].endswith("error ConnectionError: no model (node model)")
    assert [line for line in out.splitlines() if line.endswith(" ")] == []
    _, shown, _ = await cli(fleet, "runs", "show", run["id"])
    assert "ConnectionError: no model (node model)" in shown


async def test_a_paused_run_names_what_it_waits_for(fleet: Fleet) -> None:
    await fleet.start()
    [run] = await cli_json(fleet, "enqueue", "batched", "--input", INPUT, "--thread", "t-1")
    await cli_json(fleet, "runs", "watch", run["id"], "--until", "pause")
    asked = await cli_json(fleet, "approvals", "list")
    _, shown, _ = await cli(fleet, "runs", "show", run["id"])
    assert all(f"placet approvals show {approval['id']}" in shown for approval in asked)
    await cli_json(fleet, "reject", asked[0]["id"], "--message", "no", "--reviewer", "ann")
    _, table, _ = await cli(fleet, "approvals", "list", "--all")
    assert "reject (no)" in table
    assert [line for line in table.splitlines() if line.endswith(" ")] == []
    [state] = await cli_json(fleet, "threads", "show", "t-1")
    assert state["run_id"] == run["id"]
    assert len(state["values"]["messages"]) == 2


async def test_it_warns_of_a_run_that_no_live_worker_takes(fleet: Fleet) -> None:
    status, _, err = await cli(fleet, "enqueue", "batched", "--input", INPUT)
    assert (status, err) == (0, "warning: no worker lives now: placet worker starts one\n")
    [worker] = await fleet.start()
    _, _, err = await cli(fleet, "enqueue", "bached", "--input", INPUT)
    assert err.startswith("warning: no live worker serves 'bached'; known: ")
    _, _, err = await cli(fleet, "enqueue", "batched", "--input", INPUT, "--queue", "q")
    assert err == f"warning: no live worker consumes the queue 'q'; known: {fleet.settings.queues}\n"
    _, _, err = await cli(fleet, "enqueue", "batched", "--input", INPUT)
    assert err == ""
    worker.kill()

    async def gone() -> str:
        found = {check["name"]: check["found"] for check in await cli_json(fleet, "doctor")}["workers"]
        return found if f":{worker.pid} (last seen " in found else ""

    assert (await wait_until(gone)).startswith("none alive; gone: ")


async def test_watching_ends_quietly_with_ctrl_c(fleet: Fleet) -> None:
    await fleet.start()
    process = await start("approvals", "watch", "--json", env=fleet.env())
    assert process.stdout is not None
    [run] = await cli_json(fleet, "enqueue", "batched", "--input", INPUT)
    async with asyncio.timeout(PATIENCE):
        assert json.loads(await process.stdout.readline())["run_id"] == run["id"]
        process.send_signal(signal.SIGINT)
        _, err = await process.communicate()
    assert (process.returncode, err) == (130, b"")


async def test_wrong_usage_is_one_line_and_status_2(fleet: Fleet) -> None:
    for args, says in {
        ("enqueue", "x"): "see placet enqueue --help",
        ("enqueue", "x", "--input", "{"): "not JSON",
        ("enqueue", "x", "--input", "{}", "--timeout", "3s"): "--wait",
        ("runs", "list", "--status", "odd"): "'--status': 'odd' is not one of 'pending', ",
        ("approve", "x", "--reviewer", ""): "--reviewer",
        ("answer", "x", "--value", "yes"): "--value '\"yes\"'",
        ("odd",): "see placet --help",
    }.items():
        status, out, err = await cli(fleet, *args)
        assert (status, out, len(err.splitlines())) == (2, "", 1)
        assert err.startswith("error: ")
        assert says in err


async def test_several_are_approved_at_once_or_none(fleet: Fleet) -> None:
    await fleet.start()
    [run] = await cli_json(fleet, "enqueue", "batched", "--input", INPUT)
    await cli_json(fleet, "runs", "watch", run["id"], "--until", "pause")
    ids = [one["id"] for one in await cli_json(fleet, "approvals", "list", "--run", run["id"])]
    assert len(ids) == 2
    status, told = await error(fleet, "approve", *ids, "nope", "--reviewer", "ann")
    assert (status, told["type"]) == (1, "NotFound")
    assert len(await cli_json(fleet, "approvals", "list", "--run", run["id"])) == 2
    status, _, err = await cli(fleet, "approve", *ids, "--seen", "x")
    assert status == 2
    assert "goes with one ID only" in err
    decided = await cli_json(fleet, "approve", *ids, "--reviewer", "ann")
    assert {(one["id"], one["status"]) for one in decided} == {(key, "decided") for key in ids}


async def test_an_input_that_the_agent_would_drop_is_an_error(fleet: Fleet) -> None:
    await fleet.start()
    status, told = await error(fleet, "enqueue", "batched", "--input", '"hi"')
    assert (status, told["type"]) == (1, "InvalidInput")
    assert told["message"].startswith('input: must be an object of the agent\'s input, as {"messages": [')
    status, out, _ = await cli(fleet, "enqueue", "batched", "--input", '{"messges": []}', "--wait", "--json")
    run = json.loads(out)
    assert (status, run["status"], run["error"]["type"]) == (1, "error", "InvalidInput")
    assert (
        "input.messges: is no key of the agent's input, did you mean 'messages'?" in run["error"]["message"]
    )


async def test_errors_are_one_line_and_status_1(fleet: Fleet) -> None:
    status, _, err = await cli(fleet, "runs", "show", "nope")
    assert (status, err) == (1, "error: no run 'nope'\n")
    fleet.settings = type(fleet.settings).from_env({}, redis_url="redis://127.0.0.1:1/0")
    status, down = await error(fleet, "runs", "list")
    assert (status, down["type"]) == (1, "StoreUnavailable")
    assert down["message"].endswith("start `placet dev`, or set PLACET_REDIS_URL")


async def test_doctor_finds_what_is_wrong(fleet: Fleet) -> None:
    await fleet.start()
    checks = {check["name"]: check for check in await cli_json(fleet, "doctor")}
    assert {check["status"] for check in checks.values()} == {"ok"}
    assert "batched" in checks["agents"]["found"]
    fleet.settings = replace(fleet.settings, checkpointer="langgraph-redis")
    _, out, _ = await cli(fleet, "doctor", "--json")
    (failed,) = (line for line in map(json.loads, out.splitlines()) if line["status"] == "fail")
    assert failed["name"] == "checkpointer"
    assert "lacks Search and JSON" in failed["found"]
    fleet.settings = type(fleet.settings).from_env(
        {}, redis_url="redis://u:secret@127.0.0.1:1/0", config="no.json"
    )
    status, out, err = await cli(fleet, "doctor", "--json")
    assert status == 1
    assert "secret" not in out + err
    process = await start("doctor", "--json", env=fleet.env(PLACET_REDIS_URL="http://foo"))
    settings = json.loads((await process.communicate())[0].splitlines()[0])
    assert (process.returncode, settings["name"], settings["status"]) == (1, "settings", "fail")
    assert "PLACET_REDIS_URL" in settings["found"]
    names = {line["name"] for line in map(json.loads, out.splitlines()) if line["status"] == "fail"}
    assert names == {"server", "broker", "agents"}


async def test_doctor_as_a_workers_health_check(fleet: Fleet) -> None:
    """It asks for a worker of this machine alone, and does not look at agents."""
    fleet.settings = replace(fleet.settings, config="no.json")
    status, out, err = await cli(fleet, "doctor", "--worker")
    assert (status, out, err) == (1, f"fail worker       none alive on {socket.gethostname()}\n", "")
    fleet.settings = replace(fleet.settings, config=str(AGENTS))
    [worker] = await fleet.start()
    fleet.settings = replace(fleet.settings, config="no.json")

    async def alive() -> bool:
        status, out, _ = await cli(fleet, "doctor", "--worker", "--json")
        found = json.loads(out)
        assert found["name"] == "worker"
        return status == 0 and f":{worker.pid}" in found["found"]

    await wait_until(alive)
    fleet.settings = replace(fleet.settings, redis_url="redis://u:secret@127.0.0.1:1/0")
    status, out, err = await cli(fleet, "doctor", "--worker", "--json")
    assert (status, json.loads(out)["status"], err) == (1, "fail", "")
    assert "secret" not in out


@pytest.mark.parametrize("broker", ["rabbitmq"], indirect=True)
async def test_doctor_looks_at_rabbitmqs_queues(fleet: Fleet, broker: RabbitBroker) -> None:
    async def check() -> dict[str, Any]:
        _, out, _ = await cli(fleet, "doctor", "--json")
        found: dict[str, Any]
        (found,) = (line for line in map(json.loads, out.splitlines()) if line["name"] == "broker")
        assert "guest:guest" not in found["found"]
        return found

    queue = fleet.settings.queue_names[0]
    broker.declare("classic", {})
    assert (await check())["found"].endswith(f": {queue} not there yet")
    await fleet.start()
    found = await check()
    assert found["status"] == "ok"
    assert found["found"].endswith(f": {queue} 0 waiting")
    fleet.settings = replace(fleet.settings, queues=f"{queue},classic")
    found = await check()
    assert found["status"] == "fail"
    assert "inequivalent arg 'x-queue-type' for queue 'classic'" in found["found"]
    assert found["advice"].startswith("delete the queue classic")
    broker.delete("classic")


async def test_a_worker_starts_without_a_banner(fleet: Fleet) -> None:
    process = await start("worker", env=fleet.env())
    assert process.stderr is not None
    try:
        async with asyncio.timeout(PATIENCE):
            err = await process.stderr.readuntil(b" ready.\n")
            process.send_signal(signal.SIGTERM)
            out, _ = await process.communicate()
        assert b"[config]" not in out + err
        assert b"Warning" not in err
        assert b"worker.started" in err
    finally:
        if process.returncode is None:
            process.kill()


async def test_worker_keeps_processes_alive_and_stops_warm(fleet: Fleet) -> None:
    process = await start("worker", "--processes", "2", env=fleet.env())
    parent = psutil.Process(process.pid)
    try:
        async with fleet.connect() as placet:
            run = await placet.enqueue("batched", json.loads(INPUT))
            await placet.wait(run.id, until="pause", timeout=PATIENCE)
        first, second = parent.children()
        first.kill()

        async def replaced() -> bool:
            alive = parent.children()
            return len(alive) == 2 and first not in alive and second in alive

        await wait_until(replaced)
        children = parent.children()
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            await process.communicate()
        assert process.returncode == 0
        assert [child for child in children if child.is_running()] == []
    finally:
        if process.returncode is None:
            process.kill()
