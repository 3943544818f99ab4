"""Shows trees and runs to people: outlines, drawings, lines of events, live trees.

Importing this registers how agents show themselves; what that takes is imported when one is shown.
"""

from agentgraph.agents.agents import Agent, Shown


class Renderer:
    """Shows an agent as its outline, and in Jupyter as its compiled graph."""

    def text(self, agent: Agent) -> str:
        """Return the outline of a tree."""
        from agentgraph.show.lines import tree_lines

        return "\n".join(tree_lines(agent))

    def mime_bundle(self, agent: Agent) -> dict[str, str]:
        """Return what Jupyter displays, by MIME type."""
        from agentgraph.show.drawing import mime_bundle

        return mime_bundle(agent)


Shown.renderer = Renderer()
