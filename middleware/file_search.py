"""LangChain's file search, which says so when its directory is not on the worker's host."""

from __future__ import annotations

import socket
from functools import wraps
from typing import TYPE_CHECKING, Any

from langchain.agents.middleware import file_search as stock

if TYPE_CHECKING:
    from collections.abc import Callable


class FilesystemFileSearchMiddleware(stock.FilesystemFileSearchMiddleware):
    """LangChain's; on a host without `root_path` the model reads that, not "No files found".

    Each worker searches its own host's files: give all of them the same ones, by a shared volume or an image.
    """

    def __init__(self, *, root_path: str, use_ripgrep: bool = True, max_file_size_mb: int = 10) -> None:
        super().__init__(root_path=root_path, use_ripgrep=use_ripgrep, max_file_size_mb=max_file_size_mb)
        for search in self.tools:
            search.func = self._in_directory(search.func)  # type: ignore[attr-defined] # a StructuredTool

    def _in_directory(self, search: Callable[..., str]) -> Callable[..., str]:
        @wraps(search)
        def searched(*args: Any, **kwargs: Any) -> str:
            if not self.root_path.is_dir():
                return f"Nothing was searched: {socket.gethostname()} has no directory {self.root_path}."
            return search(*args, **kwargs)

        return searched
