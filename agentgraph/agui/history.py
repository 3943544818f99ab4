"""The messages of a thread, for a client without new input, which may miss some."""

from collections.abc import Iterable

from ag_ui.core import Message, RunAgentInput

from agentgraph.agui.conversation import Conversation, SentMessage
from agentgraph.agui.messages import Messages
from agentgraph.agui.plain import plain_text
from agentgraph.reports.thread import Turn


def history(turns: Iterable[Turn], run_input: RunAgentInput) -> list[Message]:
    """Return the messages of turns; the user's messages in the client's form if it has them."""
    known = {message.id: message for message in run_input.messages}
    conversation = Conversation([])
    messages = Messages(conversation)
    for turn in turns:
        for said in turn.messages:
            if said.type == "human":
                sent = SentMessage(str(said.id), "user", said.name, {}, [plain_text(said.text)])
                conversation.keep(known.get(sent.id) or sent.message())
        for event in turn.events:
            if event.message is not None:
                for _ in messages.whole(event, event.message):
                    pass  # only the conversation is needed
    return conversation.snapshot()
