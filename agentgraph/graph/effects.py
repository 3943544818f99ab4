"""The effects of a message that a function, a tool, a hook or a LangGraph graph writes under an id.

The history is the log of messages and finished work, and all agents share it. Middleware edits messages
for another purpose: so that one model sees the right ones. So most of its edits change only the
messages that its agent sees, the agent's *context*. The history follows where an agent corrects or
takes back its own words, or redacts the user's. The table has the effect, by the giver of the message
and the owner of the message with its id.

Some rules hold in all rows, because they look at the messages themselves:

- Only words can be taken back: messages of the user, and of a model without calls. Finished work stays.
- Only a human message rewrites one of the user.
- A message that differs from the one that is there only by our stamps changes nothing.
- A message replaces one of the same type only, a result that of the same call, and none replaces a
  message whose calls have results that would lose their call. A reply of a model replaces nothing at
  all: its id is a label. Such messages are handled as if they had no id, and get a new one if they are
  emitted.

Pure: only messages go in and out.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Literal, NamedTuple
from uuid import uuid4

from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
)

from agentgraph.graph.paired_calls import call_id, calls_of
from agentgraph.graph.stamps import PROVIDER_ID, address_of, stamped
from agentgraph.graph.values import is_same

Effect = Literal["said", "replaced", "rewritten", "taken back", "context", "nothing"]
"""The effects:

- "said": it is new in the history, and emitted; under another id if another message has its own
- "replaced": the message that is there is discarded, and this one emitted in its place
- "rewritten": it replaces the user's message for all agents, and is not emitted
- "taken back": the message that is there is discarded, and leaves the history
- "context": at most what the agent sees changes
- "nothing": the history is so already
"""
Giver = Literal["function", "tool", "hook"]
"""The givers of a message:

- "function": a function agent, or the `output` of a graph; these see the history, and have no context
- "tool": a tool of a chat agent
- "hook": middleware of a chat agent, or a LangGraph graph
"""
Owner = Literal["none", "user", "here", "earlier", "other"]
"""The owners of the message that has the id:

- "none": there is none
- "user": a human message of the user, in this lane
- "here": the agent's own, said in this activation
- "earlier": the agent's own, said in an earlier activation
- "other": another agent's, the user's in a lane around this one, or one that only the context has
"""

_INSIDE: Mapping[Owner, tuple[Effect, Effect, Effect]] = {
    # its owner: of a removal, of a human or system message, of any other message
    "none": ("nothing", "context", "said"),
    "user": ("context", "rewritten", "context"),
    "here": ("taken back", "replaced", "replaced"),
    "earlier": ("context", "replaced", "replaced"),
    "other": ("context", "context", "context"),
}
TABLE: Mapping[Giver, Mapping[Owner, tuple[Effect, Effect, Effect]]] = {
    "hook": _INSIDE,
    "tool": {**_INSIDE, "none": ("nothing", "said", "said")},
    "function": {
        "none": ("nothing", "said", "said"),
        "user": ("taken back", "rewritten", "said"),
        "here": ("taken back", "replaced", "replaced"),
        "earlier": ("taken back", "replaced", "replaced"),
        "other": ("taken back", "context", "said"),  # it sees what others said as human messages
    },
}
"""The effect of a message, unless one of the three rules says otherwise."""


class MessageChange(NamedTuple):
    """A change of the history by a message.

    Attributes:
        effect: The effect of the message.
        messages: The messages to write: emitted messages, with a stamp; rewritten messages of the user,
            without one; and removals.
        discarded: The ids of the messages that are discarded.
    """

    effect: Effect
    messages: list[BaseMessage]
    discarded: list[str]


def effect_of(
    message: BaseMessage,
    was: BaseMessage | None,
    owner: Owner,
    giver: Giver,
    *,
    is_reply: bool = False,
    answered: Collection[str] = (),
) -> Effect:
    """Return the effect of a message.

    Args:
        message: The message.
        was: The message of the history that has its id.
        owner: The owner of that message.
        giver: The source of the message.
        is_reply: Whether it is a new reply of a model.
        answered: The ids of the calls of `was` that have results.
    """
    column = _column(message)
    effect = TABLE[giver][owner][column]
    if was is None:
        return effect if column else "nothing"
    if column and (is_reply or (effect == "replaced" and must_not_replace(message, was, answered))):
        return TABLE[giver]["none"][column]
    match effect:
        case "taken back" if address_of(was) is not None and not _is_word(was):
            return "context"
        case "rewritten" if message.type != "human":
            return "context"
        case "said" | "replaced" | "rewritten" if _is_repeated(message, was):
            return "nothing"
    return effect


def must_not_replace(message: BaseMessage, was: BaseMessage, answered: Collection[str] = ()) -> bool:
    """Return whether a message must not take the place of the one that has its id.

    Args:
        message: The message.
        was: The message that has its id.
        answered: The ids of the calls of that one that have results.
    """
    if isinstance(message, RemoveMessage):
        return False
    if isinstance(message, ToolMessage) and isinstance(was, ToolMessage):
        return message.tool_call_id != was.tool_call_id
    return message.type != was.type or not {*map(call_id, calls_of(message))}.issuperset(answered)


def answered_in(was: BaseMessage, messages: Sequence[BaseMessage]) -> set[str]:
    """Return the ids of the calls of a message that have results after it."""
    calls = {*map(call_id, calls_of(was))}
    if not calls:
        return calls
    at = max((i for i, each in enumerate(messages) if each.id == was.id), default=len(messages))
    results = {each.tool_call_id for each in messages[at:] if isinstance(each, ToolMessage)}
    return calls & results


def change_by(
    message: BaseMessage,
    was: BaseMessage | None,
    owner: Owner,
    giver: Giver,
    address: str,
    name: str,
    *,
    is_taken: bool = False,
    is_reply: bool = False,
    answered: Collection[str] = (),
) -> MessageChange:
    """Return the change of the history by a message.

    Args:
        message: The message.
        was: The message of the history that has its id.
        owner: The owner of that message.
        giver: The source of the message.
        address: The address of the activation; an own message that is replaced keeps its address.
        name: The name of the agent.
        is_taken: Whether another message may have its id that is not known here.
        is_reply: As in `effect_of`.
        answered: As in `effect_of`.
    """
    if was is not None and not is_reply:
        message = _labelled_as(message, was)
    effect = effect_of(message, was, owner, giver, is_reply=is_reply, answered=answered)
    said_at = was and address_of(was)
    if effect in ("context", "nothing"):
        return MessageChange(effect, [], [])
    if effect == "said":
        new_id = str(uuid4()) if was is not None or is_taken else None
        message = stamped(message, address, name, new_id=new_id)
    elif effect == "replaced":
        at = said_at if said_at and owner in ("here", "earlier") else address
        message = stamped(message, at, name)
    is_discarded = said_at and effect in ("replaced", "taken back")
    return MessageChange(effect, [message], [str(message.id)] if is_discarded else [])


def _column(message: BaseMessage) -> int:
    """Return the column of a message; a person's answer, which an agent says, is in the last one."""
    if isinstance(message, RemoveMessage):
        return 0
    is_said = address_of(message) is not None
    return 2 if is_said or not isinstance(message, HumanMessage | SystemMessage) else 1


def _labelled_as(message: BaseMessage, was: BaseMessage) -> BaseMessage:
    """Return a message with the id with which the one in the history came, if that is another one."""
    metadata, label = message.response_metadata, was.response_metadata.get(PROVIDER_ID)
    if label is None or PROVIDER_ID in metadata or isinstance(message, RemoveMessage):
        return message
    return message.model_copy(update={"response_metadata": {**metadata, PROVIDER_ID: label}})


def _is_word(message: BaseMessage) -> bool:
    return isinstance(message, AIMessage) and not calls_of(message)


def _is_repeated(message: BaseMessage, was: BaseMessage) -> bool:
    if is_same(message, was) or (at := address_of(was)) is None:
        return is_same(message, was)
    return is_same(stamped(message, at, was.name or ""), stamped(was, at))
