"""The nodes that ask a person: that of a human, and that of a function agent's `Ask`."""

import json
from typing import Any, cast

from langchain_core.messages import HumanMessage

from agentgraph.agents.agents import HumanAgent
from agentgraph.agents.schemas import json_schema
from agentgraph.agents.templates import fill
from agentgraph.errors import AgentGraphError
from agentgraph.graph.nodes.activation import Activation
from agentgraph.graph.nodes.leaf import LeafNode
from agentgraph.graph.nodes.site import Site
from agentgraph.graph.state import Question


class HumanNode(LeafNode):
    """Asks, and says the answer. Nothing comes before the question: a resume runs all again."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.agent = cast(HumanAgent, site.place.agent)
        self.response_schema = json_schema(self.agent.response_schema)

    def run(self, activation: Activation) -> None:
        """Ask the prompt, filled from the values."""
        prompt = self.agent.prompt
        asked = (
            fill(prompt, activation.values, self.agent.name)
            if isinstance(prompt, str)
            else activation.plain("the prompt", prompt)
        )
        answer = activation.ask(Question(value=asked, response_schema=self.response_schema))
        activation.say(HumanMessage(_text(answer)))
        if self.agent.output_key:
            activation.set_values({self.agent.output_key: answer})


class QuestionNode(LeafNode):
    """Asks what a function agent left to ask, and hands the answer back to it."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self.name = site.place.question_node

    def run(self, activation: Activation) -> None:
        """Ask the question that stands in the position."""
        if activation.asked is None:
            raise AgentGraphError(
                f"{activation.address}: there is no question to ask; go to {self.site.place.node!r}"
            )
        activation.stay(self.site.place.node, answer=[activation.ask(activation.asked)])


def _text(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
