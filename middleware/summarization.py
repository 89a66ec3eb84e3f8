"""LangChain's summarization, whose options are refused when there is no such option."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import summarization as stock
from langchain.agents.middleware.summarization import DEFAULT_SUMMARY_PROMPT
from langchain_core.messages import HumanMessage
from langchain_core.messages.utils import count_tokens_approximately

if TYPE_CHECKING:
    from langchain.agents.middleware.summarization import ContextSize, Summarizer, TokenCounter, TriggerClause
    from langchain_core.language_models import BaseChatModel

SUMMARY_PREFIX = "Here is a summary of the conversation to date:"
_RENAMED = {"max_tokens_before_summary", "messages_to_keep"}


class SummarizationMiddleware(stock.SummarizationMiddleware):
    """LangChain's, with a text of your own before the summary.

    Args:
        model: As LangChain's, and so are `trigger`, `token_counter`, `summary_prompt`,
            `trim_tokens_to_summarize` and `summarizer`.
        keep: `("messages", 20)` or `{"messages": 20}`; `tokens` or `fraction` likewise.
        summary_prefix: What stands before the summary, followed by an empty line.
        deprecated_kwargs: LangChain's earlier names, `max_tokens_before_summary` and `messages_to_keep`.

    Raises:
        TypeError: when there is no such option; LangChain ignores it.
        ValueError: when an option's value is none.
    """

    def __init__(
        self,
        model: str | BaseChatModel,
        *,
        trigger: ContextSize | TriggerClause | list[ContextSize | TriggerClause] | None = None,
        keep: ContextSize | Mapping[str, float] = ("messages", 20),
        token_counter: TokenCounter = count_tokens_approximately,
        summary_prompt: str = DEFAULT_SUMMARY_PROMPT,
        trim_tokens_to_summarize: int | None = 4000,
        summarizer: Summarizer | None = None,
        summary_prefix: str = SUMMARY_PREFIX,
        **deprecated_kwargs: Any,
    ) -> None:
        if unknown := sorted(deprecated_kwargs.keys() - _RENAMED):
            raise TypeError(f"SummarizationMiddleware: no option is called {', '.join(unknown)}")
        super().__init__(
            model,
            trigger=trigger,
            keep=_kept(keep),
            token_counter=token_counter,
            summary_prompt=summary_prompt,
            trim_tokens_to_summarize=trim_tokens_to_summarize,
            summarizer=summarizer,
            **deprecated_kwargs,
        )
        self.summary_prefix = summary_prefix

    def _build_new_messages(self, summary: str) -> list[HumanMessage]:  # type: ignore[override] # theirs is static
        text = f"{self.summary_prefix}\n\n{summary}" if self.summary_prefix else summary
        return [HumanMessage(content=text, additional_kwargs={"lc_source": "summarization"})]


def _kept(keep: Any) -> ContextSize:
    if not isinstance(keep, Mapping):
        size: ContextSize = keep
        return size
    if len(keep) != 1:
        raise ValueError(f"keep: one of tokens, messages and fraction is wanted, not {sorted(keep)}")
    ((kind, value),) = keep.items()
    return (kind, value)
