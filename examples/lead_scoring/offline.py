"""Scripts instead of the models of lead scoring."""

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import call, calls
from examples.models import Script

WANTED = ("React", "Next.js", "TypeScript", "CSS", "Git", "REST")


def _score(messages: list[BaseMessage]) -> AIMessage:
    """Count the skills of the job; skills that the hiring manager names count more."""
    instruction, lead = messages[0].text, messages[-1].text
    if "skills: \n" in f"{lead}\n":
        raise ValueError("nothing is known about this lead")
    feedback = instruction.partition("manager says: ")[2]
    skills = [skill for skill in WANTED if skill in lead]
    bonus = sum(21 for word in ("accessibility", "teach") if word in feedback and word in lead.lower())
    reason = f"knows {', '.join(skills) or 'none of the skills'}"
    return calls(call("Score", score=11 + 13 * len(skills) + bonus, reason=reason))


def _write(messages: list[BaseMessage]) -> str:
    name = messages[-1].text.partition("name: ")[2].partition("\n")[0]
    is_top = "top: True" in messages[-1].text
    return f"Dear {name}, " + ("when can we talk?" if is_top else "thank you, but we chose others.")


SCRIPTS: dict[str, Script] = {"scorer": _score, "writer": _write}
