"""The part of the history that an agent sees: the messages that its model is sent.

The problem: all agents of a lane write one list of messages, while a model expects a talk between a
user and itself. Another agent's words would look like its own, and providers reject calls without
results, which parallel calls, kills, cut histories and chosen messages leave. The rules:

- A policy (`history=`) chooses messages. The agent's own stay as they are; those of others become user
  messages that name the speaker, as google-adk does it: `[critic] said: Too short.` The thoughts of
  other models are left out.
- Transfers are hidden: no model sees the calls and results that only carry one out. Only a policy that
  is a function does.
- Each call is followed by its results (`paired`): a model never sees a call without a result, nor a
  result without a call.

Nothing is changed in the history itself: another agent may see more of it.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import compress, groupby
from types import MappingProxyType
from typing import Any, cast

from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agentgraph.agents.agents import HistoryPolicy
from agentgraph.agents.budgets import Summarized, Trimmed, fitting
from agentgraph.agents.entries import Entry, PathOf
from agentgraph.agents.functions import is_awaitable, raise_unawaitable
from agentgraph.agents.run_path import RunPath
from agentgraph.agents.tool_results import TRANSFERRED
from agentgraph.errors import InvalidOutputError
from agentgraph.graph.copied_values import own_list
from agentgraph.graph.paired_calls import answers_in, paired
from agentgraph.graph.quoted_messages import is_answer, is_call, is_thought, quoted
from agentgraph.graph.stamps import address_of, agent_of, home_at, is_steered, stamp_in
from agentgraph.safe_repr import shown
from agentgraph.tree.addresses import Cursor, parse_address, places_to
from agentgraph.tree.places import Place, Tree
from agentgraph.tree.run_paths import Chains, RunPaths, with_names

OnPath = Callable[[Entry], bool]
"""Returns whether what was said is on the run path of the agent that reads."""


REQUEST = "request"
"""The key that marks a user message as the request to an agent as a tool: its whole input."""


def visible(
    messages: Sequence[BaseMessage],
    policy: HistoryPolicy | Trimmed | Summarized,
    me: str,
    my_address: str,
    path_of: PathOf,
    own_count: int = 0,
    *,
    is_open: bool = False,
    inner_names: Mapping[str, Collection[str]] = MappingProxyType({}),
    shorten: Callable[[list[Entry]], list[Entry]] | None = None,
) -> list[BaseMessage]:
    """Return the part of `messages` that the agent `me` sees, as the top of this file says.

    Args:
        messages: The history.
        policy: The agent's `history`. Of a `Summarized` one this applies only the choice of messages;
            the summary is LangChain's.
        me: The agent's name.
        my_address: Its address.
        path_of: Returns the run path of an address at which a message was said.
        own_count: How many messages at the end are of this activation: its calls and results so far,
            which the agent sees whatever the policy chooses.
        is_open: Whether calls of this activation may have no results yet.
        inner_names: For each agent that is a flattened graph: the names of its nodes.
        shorten: Returns the entries without what others than those who said it do not see.
    """
    if isinstance(policy, Trimmed | Summarized):
        seen = visible(
            messages,
            policy.history,
            me,
            my_address,
            path_of,
            own_count,
            is_open=is_open,
            inner_names=inner_names,
            shorten=shorten,
        )
        is_cut = isinstance(policy, Trimmed)
        return fitting(seen, policy.max_tokens, policy.token_counter) if is_cut else seen
    if policy is unchanged:
        return list(messages)
    before = len(messages) - own_count
    entries = [Entry(m, agent_of(m, inner_names), address_of(m), path_of) for m in messages[:before]]
    entries = entries if shorten is None else shorten(entries)
    if callable(policy):
        seen = chosen_by(policy, policy(own_list(entries)), my_address)
    else:
        chosen = _chosen(
            policy, _marked(entries, me), me, lambda: _on_run_path_to(my_address, path_of, inner_names)
        )
        seen = [
            entry.message if entry.agent_name in (None, me) else quoted(entry.message, entry.agent_name)
            for entry in chosen
            if not entry._left_out
        ]
    rounds = messages[before:]
    return [*paired(seen), *rounds] if is_open else paired([*seen, *rounds])


def last_of_workers(tree: Tree, place: Place) -> Callable[[list[Entry]], list[Entry]] | None:
    """Return the `shorten` of `visible` for the agent at a place; None where others see all.

    It leaves of each visit to a worker that only the last message is seen of (`output_mode`), except
    for agents in that worker. Messages of its
    workers belong to the visit.
    """
    terse = tree.terse.difference(places_to(place))
    if not terse:
        return None

    def visit(entry: Entry) -> tuple[object, ...] | None:
        activation = parse_address(tree, entry.address) if entry.address else None
        if activation is None:
            return None
        worker = next((each for each in places_to(activation[0]) if each in terse), None)
        if worker is None:
            return None
        counters = zip(worker.counts, activation[1], strict=False)
        return worker, *(counter for count, counter in counters if count.kind != "transfers")

    def shorten(entries: list[Entry]) -> list[Entry]:
        visits = groupby(entries, visit)
        seen = ([*several] if at is None else [*several][-1:] for at, several in visits)
        return [each for several in seen for each in several]

    return shorten


class PathReader:
    """Returns the run paths of a history in a tree with transfers: its messages say where they led."""

    def __init__(
        self, paths: RunPaths, messages: Sequence[BaseMessage], turn: int, place: Place, cursor: Cursor
    ) -> None:
        """Make a reader.

        Args:
            paths: The run paths of the tree.
            messages: The history.
            turn: The turn of the activation that reads it.
            place: The place of that activation.
            cursor: The counters there, which know all transfers that led there.
        """
        self._paths, self._messages = paths, messages
        self._turn, self._place, self._cursor = turn, place, cursor
        self._chains: Chains | None = None
        self._turns: dict[str | None, int] = {}

    def __call__(self, text: str, message: BaseMessage | None) -> RunPath | None:
        """Return the run path of an address at which a message was said; without one, of the reader."""
        if self._chains is None:
            self._chains = self._learned()
        turn = self._turns.get(message.id, self._turn) if message else self._turn
        return self._paths.of(text, turn, self._chains)

    def _learned(self) -> Chains:
        chains, turn = Chains(), 0
        for message in self._messages:
            stamp = stamp_in(message.response_metadata)
            if stamp and stamp.turn is not None:  # an unfinished call has none
                turn = stamp.turn
            self._turns[message.id] = turn
            if stamp and (names := stamp.transfers):
                activation = parse_address(self._paths.tree, stamp.address)
                if activation is not None:
                    chains.completed(turn, activation[0], with_names(*activation, [names]))
        chains.completed(self._turn, self._place, self._cursor)
        return chains


def chosen_by(policy: object, returned: object, my_address: str) -> list[BaseMessage]:
    """Return the messages that the function of a `history` returned.

    Raises:
        AgentGraphError: It returned an awaitable, and nothing here can await it.
        InvalidOutputError: It returned no messages.
    """
    if is_awaitable(returned):
        raise_unawaitable(my_address, "history", policy, returned)
    seen = list(returned) if isinstance(returned, Iterable) else []
    if not isinstance(returned, Iterable) or not all(isinstance(each, BaseMessage) for each in seen):
        raise InvalidOutputError(
            f"{my_address}: history= returned {shown(returned)}; return a list of messages, such as "
            "[entry.message for entry in entries]"
        )
    return seen


def _is_transfer(message: BaseMessage) -> bool:
    return (
        isinstance(message, ToolMessage)
        and message.status == "success"
        and TRANSFERRED in message.additional_kwargs
    )


def _marked(entries: list[Entry], me: str) -> list[Entry]:
    """Return `entries`; those that `me` must not see as they carry out a transfer are marked.

    A message that also says or calls something else is not; others see it without the transfer call.
    Others do not see the call of a structured answer either: its result says all.
    """
    messages, marked = [entry.message for entry in entries], list(entries)
    if not any(isinstance(each, ToolMessage) and each.additional_kwargs for each in messages):
        return entries
    for index, indexes in answers_in(messages).items():
        entry = entries[index]
        transfers = {at for at in indexes if at is not None and _is_transfer(messages[at])}
        is_others, hidden = entry.agent_name not in (None, me), set(transfers)
        if is_others:
            hidden |= {at for at in indexes if at is not None and is_answer(messages[at])}
        if len(hidden) == len(indexes) and not _has_content(entry.message):
            marked[index] = replace(entry, _left_out=True)
        elif hidden and is_others:
            others = [at not in hidden for at in indexes]
            marked[index] = replace(entry, message=_with_calls(entry.message, others))
        else:
            continue
        for at in transfers:
            marked[at] = replace(entries[at], _left_out=True)
    return marked


def _with_calls(message: BaseMessage, chosen: list[bool]) -> BaseMessage:
    calls = list(compress(cast(AIMessage, message).tool_calls, chosen))
    return message.model_copy(update={"tool_calls": calls})


def _has_content(message: BaseMessage) -> bool:
    if isinstance(message.content, str):
        return bool(message.content.strip())
    return any(not _is_silent(block) for block in message.content)


def _is_silent(block: Any) -> bool:
    if isinstance(block, str):
        return not block.strip()
    if block.get("type") == "text":
        return not (block.get("text") or "").strip()
    return is_call(block) or is_thought(block)


def unchanged(entries: list[Entry]) -> list[BaseMessage]:
    """Return all messages as they are: the `history` policy of readers that are not agents."""
    return [entry.message for entry in entries]


def _chosen(policy: str, entries: list[Entry], me: str, on_path: Callable[[], OnPath]) -> list[Entry]:
    match policy:
        case "path":
            is_on_path = on_path()
            return [e for e in entries if e.agent_name is None or is_on_path(e)]
        case "own":
            return [e for e in entries if e.agent_name in (None, me)]
        case "input":
            return [entries[i] for i in _input_indexes(entries)]
        case "last":
            by_agents = [
                i for i, e in enumerate(entries) if e.agent_name is not None and not e._left_out
            ]
            return [entries[i] for i in sorted({*_input_indexes(entries), *by_agents[-1:]})]
    return entries


def _on_run_path_to(
    address: str, path_of: PathOf, inner_names: Mapping[str, Collection[str]]
) -> OnPath:
    """Return the function that says whether the agent of an entry is on the run path at an address."""
    mine = path_of(address, None) or RunPath()

    def is_on_path(entry: Entry) -> bool:
        path = path_of(home_at(entry.address or "", inner_names), entry.message)
        return path is not None and mine.starts_with(path)

    return is_on_path


def _input_indexes(entries: list[Entry]) -> list[int]:
    """Return the indexes of the user's last input: the last messages that no agent said.

    Messages that were sent to a running run are added to the input of its turn.
    """
    steered = [i for i, each in enumerate(entries) if is_steered(each.message)]
    is_input = [each.agent_name is None and not is_steered(each.message) for each in entries]
    end = len(entries)
    while end and not is_input[end - 1]:
        end -= 1
    begin = end
    while begin and is_input[begin - 1]:
        begin -= 1
        if REQUEST in entries[begin].message.additional_kwargs:
            break
    return [*range(begin, end), *(i for i in steered if i >= end)]
