"""Which of several answers are refused, and why: for forms with several questions."""

from collections.abc import Mapping

from agentgraph.errors import AgentGraphError
from agentgraph.journal.answers import answers_by_id
from agentgraph.journal.pending import pending
from agentgraph.journal.thread_saver import ThreadSaver


async def faults_in(saver: ThreadSaver, answers: Mapping[str, object]) -> dict[str, str]:
    """Return what is wrong with answers, by the names with which they were given."""
    try:
        questions = await pending(saver)
    except AgentGraphError:  # it is what was refused
        return {}
    faults: dict[str, str] = {}
    for name, answer in answers.items():
        try:
            answers_by_id(saver, questions, {name: answer})
        except AgentGraphError as error:
            faults[name] = str(error)
    return faults
