"""Finds the answers that do not fit, for forms with several questions."""

from collections.abc import Mapping

from agentgraph.errors import AgentGraphError
from agentgraph.journal.answers import answers_by_id
from agentgraph.journal.pending import pending
from agentgraph.journal.thread_saver import ThreadSaver


async def faults_in(saver: ThreadSaver, answers: Mapping[str, object]) -> dict[str, str]:
    """Return the faults of answers, by the keys of the answers."""
    try:
        questions = await pending(saver)
    except AgentGraphError:  # the caller has this error already
        return {}
    faults: dict[str, str] = {}
    for name, answer in answers.items():
        try:
            answers_by_id(saver, questions, {name: answer})
        except AgentGraphError as error:
            faults[name] = str(error)
    return faults
