"""deepagents' files and subagents on Placet's store and under its runs; for the extra `deepagents`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    from deepagents.backends import CompositeBackend, StateBackend
    from deepagents.backends import store as store_
    from deepagents.middleware import subagents as subagents_
    from deepagents.middleware.filesystem import FilesystemMiddleware
    from deepagents.middleware.subagents import GENERAL_PURPOSE_SUBAGENT
except ModuleNotFoundError as error:
    raise ImportError("placet.middleware.deepagents: install placet[deepagents]") from error

from .gate.approval import HumanInTheLoopMiddleware

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from deepagents.backends import BackendProtocol, NamespaceFactory
    from deepagents.middleware.subagents import CompiledSubAgent, SubAgent
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool
    from langgraph.store.base import BaseStore

__all__ = ["CompositeBackend", "FilesystemMiddleware", "StateBackend", "StoreBackend", "SubAgentMiddleware"]

NAMESPACE = ("filesystem",)


def _shared(_: Any) -> tuple[str, ...]:
    return NAMESPACE


class StoreBackend(store_.StoreBackend):
    """deepagents'; without a `namespace` all threads of all agents share the files, on whatever worker.

        FilesystemMiddleware(backend=CompositeBackend(StateBackend(), {"/memories/": StoreBackend()}))

    Files of one user, or one agent, take a namespace of their own.
    """

    def __init__(self, *, namespace: NamespaceFactory = _shared, store: BaseStore | None = None) -> None:
        super().__init__(namespace=namespace, store=store)


GENERAL = GENERAL_PURPOSE_SUBAGENT["name"]


class SubAgentMiddleware(subagents_.SubAgentMiddleware[Any, Any]):
    """deepagents', with a `general-purpose` subagent in any case.

    Pauses of subagents are pauses of their parent's run, each with its own request; calls of their tools are
    in its ledger, and count in its limits. `task` itself is entered again after a death.

    Args:
        backend: As deepagents'; None keeps files in the agent's state.
        subagents: As deepagents'; those that name no model or tools have the defaults. `interrupt_on` of one
            is a `HumanInTheLoopMiddleware` of ours.
        default_model: For subagents that name none; `general-purpose` needs it, unless it is
            among `subagents`.
        default_tools: For subagents that name none.
        default_middleware: Comes before each declared subagent's own; not for compiled ones.
        system_prompt: As deepagents', and so are the others.
        task_description: See there.
        private_state_keys: See there.
        state_schema: See there.

    Raises:
        ValueError: when a subagent has no model.
    """

    def __init__(
        self,
        *,
        backend: BackendProtocol | None = None,
        subagents: Sequence[SubAgent | CompiledSubAgent] = (),
        system_prompt: str | None = None,
        task_description: str | None = None,
        private_state_keys: frozenset[str] | None = None,
        state_schema: type | None = None,
        default_model: str | BaseChatModel | None = None,
        default_tools: Sequence[BaseTool | Callable[..., Any] | dict[str, Any]] = (),
        default_middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (),
    ) -> None:
        if GENERAL not in {spec["name"] for spec in subagents}:
            subagents = [GENERAL_PURPOSE_SUBAGENT, *subagents]

        def whole(spec: Any) -> Any:
            if "runnable" in spec:
                return spec
            if (model := spec.get("model", default_model)) is None:
                raise ValueError(f"subagents: {spec['name']!r} has no model; give one, or default_model")
            middleware = [*default_middleware, *spec.get("middleware", ())]
            rest = {name: value for name, value in spec.items() if name != "interrupt_on"}
            if gated := spec.get("interrupt_on"):
                middleware.append(HumanInTheLoopMiddleware(interrupt_on=gated))
            return {"tools": list(default_tools), **rest, "model": model, "middleware": middleware}

        super().__init__(
            backend=backend or StateBackend(),
            subagents=[whole(spec) for spec in subagents],
            system_prompt=system_prompt,
            task_description=task_description,
            private_state_keys=private_state_keys,
            state_schema=state_schema,
        )
