"""`view`: the window in a cell of a notebook."""

from functools import cache
from typing import TYPE_CHECKING

from agentgraph.errors import AgentGraphError
from agentgraph.safe_repr import shown
from agentgraph.threads.runner import Runner

if TYPE_CHECKING:
    from agentgraph.window.cell import Cell

HEIGHT = 600
"""Pixels."""


def view(runner: Runner, thread_id: str | None = None, *, height: int = HEIGHT) -> "Cell":
    """Show the window on the runs of a tree in a cell of a notebook.

    It is the page of `agentgraph inspect`: the tree and the timeline of a thread, live; what each agent
    saw and said; questions as forms; runs that go on, go back, and begin anew.

    ```
    runner.invoke("Go.", thread_id="monday")
    ag.view(runner, "monday")
    ```

    The window follows threads also while a cell runs. What people do in it is heard by the kernel: at
    once in JupyterLab 4.4 and later; elsewhere when the cell that runs has ended. Runs that it begins
    are in the background, as those of `Runner.start`. It works as long as the kernel does; without one,
    as in a notebook that was saved or on GitHub, the cell shows how the thread stood, as a table.

    Args:
        runner: The runner. Its saver must support sync calls, as a path or a `postgresql://` URL does.
        thread_id: The thread to open; by default the window lists the threads.
        height: The height of the cell in pixels; the window scrolls inside.

    Returns:
        The widget, to be shown by the cell; `close()` ends it.

    Raises:
        AgentGraphError: The package `anywidget` is missing, `runner` is no runner, or its saver
            supports async calls only.
    """
    if not isinstance(runner, Runner):
        raise AgentGraphError(
            f"runner must be a Runner, got {shown(runner)}; write view(Runner(agent), ...)"
        )
    runner.engine.check_saver()
    return _cell_class()(runner, thread_id, height)


@cache
def _cell_class() -> "type[Cell]":
    try:
        from agentgraph.window.cell import Cell
    except ImportError:
        raise AgentGraphError(
            "viewing runs in a notebook needs the package anywidget: pip install 'agentgraph[notebook]'"
        ) from None
    return Cell
