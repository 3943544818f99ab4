"""`view`: the window in a cell of a notebook."""

from functools import cache
from typing import TYPE_CHECKING

from agentgraph.errors import AgentGraphError, pip_install
from agentgraph.safe_repr import shown
from agentgraph.threads.runner import Runner

if TYPE_CHECKING:
    from agentgraph.window.cell import Cell

HEIGHT = 600
"""Default height of a window, in pixels."""


def view(runner: Runner, thread_id: str | None = None, *, height: int = HEIGHT) -> "Cell":
    """Show the window on the runs of a tree in a cell of a notebook.

    The window is the page of `agentgraph inspect`. It shows the tree and the live timeline of a thread,
    the input and the messages of each agent, and questions as forms. It can start, resume and rewind
    runs.

    ```
    runner.invoke("Go.", thread_id="monday")
    ag.view(runner, "monday")
    ```

    The window also follows threads while a cell runs. In JupyterLab 4.4 and later, the kernel handles
    clicks at once; elsewhere, after the running cell has ended. The window starts runs in the
    background, as `Runner.start` does. Without a kernel, for example on GitHub, the cell shows the
    status of the thread as a table.

    Args:
        runner: The runner. Its checkpointer must support sync calls: a path or a `postgresql://` URL
            does.
        thread_id: The thread to open; None lists the threads.
        height: The height of the cell in pixels; the window scrolls inside.

    Returns:
        The widget, which the cell shows; `close()` ends it.

    Raises:
        AgentGraphError: The package `anywidget` is missing, `runner` is not a `Runner`, or its
            checkpointer supports async calls only.
    """
    if not isinstance(runner, Runner):
        raise AgentGraphError(f"runner={shown(runner)} is not a Runner; write view(Runner(agent), ...)")
    runner.engine.check_saver()
    return _cell_class()(runner, thread_id, height)


@cache
def _cell_class() -> "type[Cell]":
    try:
        from agentgraph.window.cell import Cell
    except ImportError:
        raise AgentGraphError(
            f"viewing runs in a notebook needs the package anywidget: {pip_install('notebook')}"
        ) from None
    return Cell
