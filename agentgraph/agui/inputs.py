"""The parts of AG-UI's run input that are new to a thread: messages, answers and values."""

from collections.abc import Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from ag_ui.core import (
    AssistantMessage,
    ContentPart,
    DataSource,
    FileSource,
    Message,
    ResumeEntry,
    RunAgentInput,
    TextPart,
    ToolMessage,
    UrlSource,
    UserMessage,
)
from langchain_core.messages import BaseMessage, HumanMessage
from langgraph.types import Overwrite

from agentgraph.agui.conversation import Conversation
from agentgraph.agui.plain import plain, plain_text
from agentgraph.agui.questions import cancelled, frontend_answer, frontend_call
from agentgraph.errors import AgentGraphError, InvalidAnswerError, UnknownInterruptError
from agentgraph.events.events import Interrupt as Question
from agentgraph.graph.stamps import address_of
from agentgraph.journal.pending import pending
from agentgraph.journal.requests import ids_on
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.safe_repr import shown

_KINDS = {"image": "image", "audio": "audio", "video": "video", "document": "file"}
"""LangChain's types of content blocks, by AG-UI's types of parts."""


@dataclass(frozen=True)
class Before:
    """The state of a thread before a run.

    Attributes:
        is_new: Whether the thread is unknown to the saver.
        is_done: Whether its last turn has ended.
        messages: Its messages by id.
        answers: The ids of persons' answers in the input that branches and inner agents have emitted.
        values: The values of the run.
        questions: The questions that wait for answers.
        is_running: Whether a run is active, or about to end; then it has the open questions alone.
    """

    is_new: bool = True
    is_done: bool = True
    messages: Mapping[str, BaseMessage] = field(default_factory=dict)
    answers: AbstractSet[str] = frozenset()
    values: Mapping[str, object] = field(default_factory=dict)
    questions: Sequence[Question] = ()
    is_running: bool = False


async def before(saver: ThreadSaver, run_input: RunAgentInput) -> Before:
    """Return the state of a thread before a run with an input.

    Raises:
        TreeChangedError: A tree of another shape ran the thread.
    """
    saved = await saver.checkpoint()
    if saved is None:
        return Before()
    is_running, questions = await saver.is_running(), await pending(saver)
    if is_running:
        return Before(False, False, questions=questions, is_running=True)
    state = (await saver.state()).values
    begun = saved.turn_input
    messages = [*state.get("messages", ()), *(begun["messages"] if begun else ())]
    by_id = {str(message.id): message for message in messages}
    values = dict(state.get("values", {}))
    named = {str(each.id) for each in _new_users(run_input, by_id.keys()) if each.name}
    answers = {each for each in named & await ids_on(saver) if each} if named else set()
    return Before(False, saved.next_node is None, by_id, answers, values, questions)


async def values_of(saver: ThreadSaver) -> Mapping[str, object]:
    """Return the values of a thread, empty for an unknown thread."""
    if await saver.checkpoint() is None:
        return {}
    values: Mapping[str, object] = (await saver.state()).values.get("values", {})
    return values


@dataclass(frozen=True)
class NewInput:
    """The new parts of a run input.

    Attributes:
        messages: The new messages of the user.
        values: The values that the client has changed.
        answers: The answers to questions, by id.
        drops: Whether the remaining questions are dropped.
    """

    messages: Sequence[HumanMessage]
    values: Mapping[str, object]
    answers: Mapping[str, object]
    drops: bool


def new_input(run_input: RunAgentInput, thread: Before, merged: AbstractSet[str]) -> NewInput:
    """Return the new parts of a run input.

    Args:
        run_input: The input.
        thread: The state of the thread.
        merged: The names of values that a reducer merges.

    Raises:
        UnknownInterruptError: An answer names a question that is not pending, or has an answer already.
        InvalidAnswerError: A cancelled question can only be answered, or dropped with the turn.
        AgentGraphError: The state is not an object.
    """
    users = _new_users(run_input, thread.messages.keys() | thread.answers)
    messages = [*map(as_human, users)]
    by_id = {question.id: question for question in thread.questions}
    entries = _entries(run_input, by_id)
    answers = _results(run_input, thread.questions)
    dropped: list[Question] = []
    for key, entry in entries.items():
        answer = entry.payload if entry.status == "resolved" else cancelled(by_id[key])
        if entry.status == "cancelled" and answer is None:
            dropped.append(by_id[key])
        else:
            answers.setdefault(key, answer)
    left = [q for q in thread.questions if q.id not in answers and q not in dropped]
    only_calls = all(frontend_call(question.value) for question in left)
    if dropped and (answers or not messages or not only_calls):
        raise _cancelled_error(run_input, dropped)
    drops = bool(messages) and not answers and only_calls
    return NewInput(messages, _new_values(run_input, thread.values, merged), answers, drops)


def live_answers(run_input: RunAgentInput, thread: Before) -> dict[str, object]:
    """Return the answers in a run input to questions of an active run, by id.

    A question may not be saved yet, so its id is not checked here.

    Raises:
        UnknownInterruptError: A cancelled question is not pending.
        InvalidAnswerError: A cancelled question can only be answered.
    """
    answers = _results(run_input, thread.questions)
    by_id = {question.id: question for question in thread.questions}
    resolved = {each.interrupt_id for each in run_input.resume or () if each.status == "resolved"}
    for key, entry in _entries(run_input, by_id, resolved).items():
        answer = entry.payload if key in resolved else cancelled(by_id[key])
        if key not in resolved and answer is None:
            raise _cancelled_error(run_input, [by_id[key]])
        answers.setdefault(key, answer)
    return answers


def _results(run_input: RunAgentInput, questions: Iterable[Question]) -> dict[str, object]:
    """Return the results of calls of the front end's tools, by the ids of the questions for them."""
    sent = Conversation(run_input.messages)
    calls = {
        sent.sent_call(call["id"], question.address): question.id
        for question in questions
        if (call := frontend_call(question.value))
    }
    return {
        calls[message.tool_call_id]: frontend_answer(message)
        for message in run_input.messages
        if isinstance(message, ToolMessage) and message.tool_call_id in calls
    }


def _cancelled_error(run_input: RunAgentInput, dropped: Iterable[Question]) -> InvalidAnswerError:
    where = ", ".join(f"{question.address} ({question.id})" for question in dropped)
    return InvalidAnswerError(
        f"thread {shown(run_input.thread_id)}: the question of {where} was cancelled, but it "
        "cannot be rejected; answer it, or cancel all questions together with the user's next "
        "message, which abandons the turn",
        run_input.thread_id,
    )


def with_saved_texts(
    run_input: RunAgentInput, thread: Before, edited: Container[str] = ()
) -> RunAgentInput:
    """Replace the texts of a run input's messages by the thread's texts under their ids.

    Args:
        run_input: The input.
        thread: The state of the thread.
        edited: The ids of the messages whose texts stay.
    """
    saved = {key: each for key, each in thread.messages.items() if key not in edited}
    messages = [_with_saved_text(each, saved.get(each.id)) for each in run_input.messages]
    return run_input.model_copy(update={"messages": messages})


def _with_saved_text(message: Message, kept: BaseMessage | None) -> Message:
    if kept is None or not isinstance(message, UserMessage | AssistantMessage):
        return message
    content = message.content
    is_same = not isinstance(content, str) or content == plain_text(str(kept.text))
    return message if is_same else message.model_copy(update={"content": plain_text(str(kept.text))})


def _entries(
    run_input: RunAgentInput, by_id: Mapping[str, Question], unchecked: Container[str] = ()
) -> dict[str, ResumeEntry]:
    entries: dict[str, ResumeEntry] = {}
    for entry in run_input.resume or ():
        is_known = entry.interrupt_id in by_id or entry.interrupt_id in unchecked
        if not is_known or entry.interrupt_id in entries:
            wrong = "twice" if entry.interrupt_id in entries else "which is not pending"
            there = ", ".join(f"{q.address} ({q.id})" for q in by_id.values())
            raise UnknownInterruptError(
                f"thread {shown(run_input.thread_id)}: resume answers {shown(entry.interrupt_id)}, "
                f"{wrong}; choose one of: {there or 'none'}",
                run_input.thread_id,
            )
        entries[entry.interrupt_id] = entry
    return entries


def _new_users(run_input: RunAgentInput, known: AbstractSet[str]) -> list[UserMessage]:
    """Return the messages of the user after the last known one."""
    users = [message for message in run_input.messages if isinstance(message, UserMessage)]
    first = max((i for i, message in enumerate(users, 1) if message.id in known), default=0)
    return users[first:]


def as_human(message: UserMessage) -> HumanMessage:
    """Return a message of the user in LangChain's form."""
    content = message.content
    return HumanMessage(
        content=content if isinstance(content, str) else [*blocks(content)],
        id=message.id,
        name=message.name,
    )


def is_of_user(message: BaseMessage) -> bool:
    """Return whether a message of a thread is the user's, in the input of a turn."""
    return isinstance(message, HumanMessage) and address_of(message) is None


def says_same(message: UserMessage, there: BaseMessage) -> bool:
    """Return whether a message of the user has the content of one of the thread."""
    if isinstance(message.content, str):
        return message.content == plain_text(str(there.text))
    return as_human(message).content == there.content


def _new_values(
    run_input: RunAgentInput, values: Mapping[str, object], merged: AbstractSet[str]
) -> dict[str, object]:
    """Return the values of the client's state that differ from those of the thread.

    The state has complete values, so a value with a reducer is overwritten.
    """
    state = run_input.state
    if not isinstance(state, dict | None):
        raise AgentGraphError(
            f"thread {shown(run_input.thread_id)}: state={shown(state)} is not an object; send the "
            "values of the run by name"
        )
    return {
        name: Overwrite(value) if name in merged else value
        for name, value in (state or {}).items()
        if not name.startswith("_") and (name not in values or plain(values[name]) != value)
    }


def blocks(parts: Iterable[ContentPart]) -> list[dict[str, str]]:
    """Convert AG-UI's parts to LangChain's content blocks."""
    return [_block(part) for part in parts]


def _block(part: ContentPart) -> dict[str, str]:
    if isinstance(part, TextPart):
        return {"type": "text", "text": part.text}
    block: dict[str, str] = {"type": _KINDS[part.type]}
    match part.source:
        case DataSource(value=data):
            block["base64"] = data
        case UrlSource(value=url):
            block["url"] = url
        case FileSource(value=file):
            block["file_id"] = file
    if part.source.mime_type:
        block["mime_type"] = part.source.mime_type
    return block
