"""The widget of a cell: the page as one module, and a table for notebooks without a kernel."""

from collections.abc import Callable

import anywidget
import traitlets

from agentgraph.events.json_forms import JsonObject
from agentgraph.graph.sync_async import running_loop
from agentgraph.threads.runner import Runner
from agentgraph.window.calls import Window
from agentgraph.window.cell_backend import CellBackend
from agentgraph.window.joined import cell_module, joined_styles
from agentgraph.window.static_view import HIDING, static_view


class Cell(anywidget.AnyWidget):
    """The window in a cell.

    Attributes:
        backend: Answers the page.
        thread_id: The thread to open; None lists all threads.
        height: The height of the window in pixels.
    """

    _esm = cell_module()
    _css = joined_styles()
    thread_id = traitlets.Unicode(None, allow_none=True).tag(sync=True)
    height = traitlets.Int().tag(sync=True)

    def __init__(self, runner: Runner, thread_id: str | None, height: int) -> None:
        super().__init__(thread_id=thread_id, height=height)
        window = Window(runner, runner.agent.name)
        self.backend = CellBackend(window, self._send_content, running_loop())
        self.on_msg(self._receive_content)
        self._reset_subshell()

    def close(self) -> None:
        """Close the window, in the kernel and in the notebook."""
        self.backend.close()
        super().close()

    def __repr__(self) -> str:
        thread = f"thread {self.thread_id!r}" if self.thread_id else "all threads"
        return f"<window on {self.backend.window.title!r}: {thread}>"

    def _send_content(self, content: JsonObject) -> None:
        self.send(content)
        self._reset_subshell()

    def _reset_subshell(self) -> None:
        # ipykernel 7.4 routes messages to the subshell that sent last, which is the running cell.
        # Without this id, each message reaches its own subshell, also while a cell runs.
        self.comm.__dict__.pop("_reply_subshell_id", None)

    def _receive_content(self, _: object, content: JsonObject, buffers: object) -> None:
        self.backend.receive(content)

    def _repr_mimebundle_(self, **_: object) -> tuple[JsonObject, JsonObject]:
        bundle, metadata = self._live()
        return bundle | self._static(), metadata

    def _ipython_display_(self) -> None:
        # A saved notebook that is opened without its kernel shows an error instead of the window. So
        # the table is a separate output: it hides an empty window, and a full window hides the table.
        from IPython import display

        show: Callable[..., object] = display.display  # IPython declares no types
        bundle, metadata = self._live()
        table = self._static()
        show(table | {"text/html": HIDING + table["text/html"]}, raw=True)
        show(bundle | {"text/plain": repr(self)}, metadata=metadata, raw=True)

    def _live(self) -> tuple[JsonObject, JsonObject]:
        bundle = super()._repr_mimebundle_()
        assert bundle  # only widgets without a view return None
        return bundle

    def _static(self) -> JsonObject:
        table = static_view(self.backend.window, self.thread_id)
        return {"text/plain": table.text(), "text/html": table.html()}
