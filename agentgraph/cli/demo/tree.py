"""The tree of the demo: a summary is written and criticised, reviewed by two, approved by a person.

The text is the value `text`: `agentgraph run tree.py:report "Report." --values '{"text": "..."}'`.
"""

import re

import agentgraph as ag
from agentgraph.cli.demo.models import WORD_LIMIT, critique, facts, model, style, write

_BOTH = "\n\nSummary:\n{draft}\n\nText:\n{text}"


def content(ctx: ag.Context) -> bool:
    """Tell whether the critic has found the summary good."""
    return re.match(r"\W*good\b", str(ctx.values["critique"]), re.IGNORECASE) is not None


report = ag.sequential(
    "report",
    [
        ag.loop(
            "refine",
            [
                ag.chat_agent(
                    "write",
                    model(write),
                    instruction="Summarise the text. If the critic asked you to revise a summary, do "
                    "what was asked. Reply with the summary alone.\n\nText:\n{text}",
                    output_key="draft",
                ),
                ag.chat_agent(
                    "critique",
                    model(critique),
                    instruction=f"The summary has to have at most {WORD_LIMIT} words, and to say in "
                    "brackets at its end how long the text is. Reply GOOD if it does, else REVISE: "
                    f"and what to do.{_BOTH}",
                    output_key="critique",
                ),
            ],
            max_iterations=4,
            until=content,
        ),
        ag.parallel(
            "review",
            [
                ag.chat_agent(
                    "facts",
                    model(facts),
                    instruction="Say in one sentence whether the numbers of the summary stand in the "
                    f"text.{_BOTH}",
                ),
                ag.chat_agent(
                    "style",
                    model(style),
                    instruction=f"Name the sentence that is hardest to read.{_BOTH}",
                ),
            ],
        ),
        ag.human(
            "approve",
            "Approve this summary?\n{draft}",
            response_schema={"enum": ["approve", "reject"]},
            output_key="verdict",
        ),
    ],
)
