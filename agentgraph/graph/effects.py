"""What becomes of a message that a function, a tool, a hook or a foreign graph gives under an id.

The history is what was said and what ran, and all agents share it. Middleware edits messages for
another purpose: so that one model sees the right ones. So most of its edits change only what its agent
sees, the agent's *context*. The history follows where somebody corrects or takes back their own words,
or redacts the user's. The table says which, by who gives the message and whose message has its id.

Three rules hold in all rows, for they look at the messages themselves:

- Only words can be taken back: messages of the user, and of a model without calls. What ran stays.
- Only a human message rewrites one of the user.
- A message that differs from the one that is there only by our stamps changes nothing.

Pure: only messages go in and out.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, RemoveMessage, SystemMessage

from agentgraph.graph.history import calls_of
from agentgraph.graph.stamps import address_of, stamped
from agentgraph.graph.values import is_same

Effect = Literal["said", "replaced", "rewritten", "taken back", "context", "nothing"]
"""What becomes of a message:

- "said": it is new in the history, and emitted
- "replaced": the message that is there is voided, and this one emitted in its place
- "rewritten": it replaces the user's message for all agents, and is not emitted
- "taken back": the message that is there is voided, and leaves the history
- "context": at most what the agent sees changes
- "nothing": the history is so already
"""
Giver = Literal["function", "tool", "hook"]
"""Who gives a message:

- "function": a function agent, or the `output` of a graph; these see the history, and have no context
- "tool": a tool of a chat agent
- "hook": middleware of a chat agent, or a foreign graph
"""
Owner = Literal["nobody", "user", "here", "earlier", "other"]
"""Whose message has the id of the one that is given:

- "nobody": there is none
- "user": a human message of the user, in this lane
- "here": the agent's own, said in this activation
- "earlier": the agent's own, said in an earlier activation
- "other": another agent's, the user's in a lane around this one, or one that only the context has
"""

_INSIDE: Mapping[Owner, tuple[Effect, Effect, Effect]] = {
    # its owner: of a removal, of a human or system message, of any other message
    "nobody": ("nothing", "context", "said"),
    "user": ("context", "rewritten", "context"),
    "here": ("taken back", "replaced", "replaced"),
    "earlier": ("context", "replaced", "replaced"),
    "other": ("context", "context", "context"),
}
TABLE: Mapping[Giver, Mapping[Owner, tuple[Effect, Effect, Effect]]] = {
    "hook": _INSIDE,
    "tool": {**_INSIDE, "nobody": ("nothing", "said", "said")},
    "function": {
        "nobody": ("nothing", "said", "said"),
        "user": ("taken back", "rewritten", "replaced"),
        "here": ("taken back", "replaced", "replaced"),
        "earlier": ("taken back", "replaced", "replaced"),
        "other": ("taken back", "context", "replaced"),  # it sees what others said as human messages
    },
}
"""The effect of a message, unless one of the three rules says otherwise."""


class MessageChange(NamedTuple):
    """A change of the history by a message.

    Attributes:
        effect: The effect of the message.
        messages: What is written: messages that are said, with a stamp; rewritten messages of the user,
            without one; and removals.
        void: The ids of the messages that become void.
    """

    effect: Effect
    messages: list[BaseMessage]
    void: list[str]


def effect_of(message: BaseMessage, was: BaseMessage | None, owner: Owner, giver: Giver) -> Effect:
    """Return what becomes of a message.

    Args:
        message: The message.
        was: The message of the history that has its id.
        owner: Whose that is.
        giver: Who gives the message.
    """
    column = _column(message)
    effect = TABLE[giver][owner][column]
    if was is None:
        return effect if column else "nothing"
    match effect:
        case "taken back" if address_of(was) is not None and not _is_word(was):
            return "context"
        case "rewritten" if message.type != "human":
            return "context"
        case "replaced" | "rewritten" if _is_repeated(message, was):
            return "nothing"
    return effect


def change_by(
    message: BaseMessage, was: BaseMessage | None, owner: Owner, giver: Giver, address: str, name: str
) -> MessageChange:
    """Return the change of the history by a message.

    Args:
        message: The message.
        was: The message of the history that has its id.
        owner: Whose that is.
        giver: Who gives the message.
        address: The address of the activation; an own message that is replaced keeps its address.
        name: The name of the agent.
    """
    effect, said_at = effect_of(message, was, owner, giver), was and address_of(was)
    if effect in ("context", "nothing"):
        return MessageChange(effect, [], [])
    if effect in ("said", "replaced"):
        at = said_at if said_at and owner in ("here", "earlier") else address
        message = stamped(message, at, name)
    is_void = said_at and effect in ("replaced", "taken back")
    return MessageChange(effect, [message], [str(message.id)] if is_void else [])


def _column(message: BaseMessage) -> int:
    """Return the column of a message; a person's answer, which an agent says, is in the last one."""
    if isinstance(message, RemoveMessage):
        return 0
    is_said = address_of(message) is not None
    return 2 if is_said or not isinstance(message, HumanMessage | SystemMessage) else 1


def _is_word(message: BaseMessage) -> bool:
    return isinstance(message, AIMessage) and not calls_of(message)


def _is_repeated(message: BaseMessage, was: BaseMessage) -> bool:
    if is_same(message, was) or (at := address_of(was)) is None:
        return is_same(message, was)
    return is_same(stamped(message, at, was.name or ""), stamped(was, at))
