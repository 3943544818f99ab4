"""Shows trees and runs to people: outlines, drawings, lines of events, live trees.

The import registers a renderer for agents; its dependencies are imported at the first rendering.
"""

from agentgraph.agents.agents import Agent, Shown


class Renderer:
    """Renders an agent as its outline, and in Jupyter as its compiled graph."""

    def text(self, agent: Agent) -> str:
        """Return the outline of a tree."""
        from agentgraph.show.lines import tree_lines

        return "\n".join(tree_lines(agent))

    def mime_bundle(self, agent: Agent) -> dict[str, str]:
        """Return the representations for Jupyter, by MIME type."""
        from agentgraph.show.drawing import mime_bundle

        return mime_bundle(agent)


Shown.renderer = Renderer()
