"""The calls of the page, by name: JSON data in, JSON data out."""

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal, InvalidOperation
from importlib.metadata import version
from typing import Any, Protocol, TypeVar, cast

from agentgraph.agents.limits import Limits
from agentgraph.errors import AgentGraphError, SaverError, ThreadError
from agentgraph.events.json_forms import JsonObject, as_json
from agentgraph.graph.graph_classes import RootGraph
from agentgraph.journal.changed_trees import RanBy
from agentgraph.journal.states import ListedStatus
from agentgraph.reports.conversation import conversation
from agentgraph.reports.overview import (
    Overview,
    ThreadIds,
    line_overview,
    lines,
    overview_of,
    present_values,
    thread_ids,
    version_of,
)
from agentgraph.safe_repr import shown
from agentgraph.threads.live.active_run import active_run_on, start_times
from agentgraph.threads.live.queueing import WhileRunning
from agentgraph.threads.rewinds.rewinding import RewindArguments
from agentgraph.threads.runner import Runner
from agentgraph.window.answers import faults_in
from agentgraph.window.arguments import checked
from agentgraph.window.background_runs import BackgroundRuns
from agentgraph.window.changes import Changes, turn_start
from agentgraph.window.findings import findings_data, value_names
from agentgraph.window.run_context import context_data
from agentgraph.window.run_texts import RunTexts
from agentgraph.window.shapes import (
    activation_data,
    bar_data,
    conversation_data,
    difference_data,
    flame_data,
    limits_data,
    row_data,
    thread_data,
    tree_data,
    unreadable_row,
)

K = TypeVar("K")
V = TypeVar("V")

_FIRST = 200
"""Number of latest steps of the root in a page's first timeline."""
_KEPT = 2000
"""Number of threads whose status is cached."""
_STRIPES = 16
"""Number of locks for threads: pages that open the same thread share one read."""
_READ_LATELY = 32
"""Number of timeline parts that are cached for other pages at the same event."""
_FURTHER = 400
"""Maximum number of missed steps sent after a reconnect; beyond it, only the latest are sent."""
_LONG_VALUE = 2000
"""Maximum number of characters of a value that a form proposes, as JSON."""
_MOST_LISTED = 500
"""Maximum number of threads in a list."""
_SEARCHED, _SEARCHED_A_ROW = 200, 4
"""Minimum number of threads whose texts are searched; number for each row of a longer list."""
_MOST_OTHERS = 500
"""Maximum number of threads of other trees that a list finds and leaves out; the next one continues."""
_KEPT_LISTS = 8
"""Maximum number of cached lists of ids; each status and each page of a list has its own."""


class Page(Protocol):
    """The page of a window, which may have windows of other trees: `Trees`."""

    @property
    def names(self) -> Sequence[str]:
        """The names of its trees."""

    @property
    def can_reload(self) -> bool:
        """Whether files define its trees."""

    @property
    def has_changed(self) -> bool:
        """Whether a file has changed since the last load."""

    def has_tree(self, fingerprint: str) -> bool:
        """Return whether a tree has exactly this outline, by its hash."""

    def about(self, thread_id: str | None = None) -> JsonObject:
        """Return the data of the tree that ran a thread, or of the first tree."""

    def reload(self) -> tuple[bool, str | None, bool]:
        """Reload the trees; return whether they are new, the error, and whether the reload waits."""


class Window:
    """Answers the page of one tree.

    Attributes:
        runner: Runs the tree.
        title: The title of the page.
        name: The name of the tree in the choice of a page of several trees.
        is_closed: Whether the window sends no more updates.
    """

    def __init__(self, runner: Runner, title: str, name: str = "", page: Page | None = None) -> None:
        """Make a window.

        Args:
            runner: Runs the tree.
            title: The title of the page.
            name: The name of the tree in a choice.
            page: The page, which may be reloaded; None for a window alone.
        """
        self.runner, self.title, self.name, self.is_closed = runner, title, name, False
        self._page, self._runs = page, BackgroundRuns()
        self._overviews: OrderedDict[str, Overview] = OrderedDict()
        self._ids: OrderedDict[Hashable, ThreadIds] = OrderedDict()
        self._timelines: OrderedDict[Hashable, JsonObject] = OrderedDict()
        self._findings: list[JsonObject] | None = None
        self._names: frozenset[str] | None = None  # of values
        self._others: set[str] = set()  # the threads that other trees ran
        self._texts: dict[str, RunTexts] = {}
        self._guard = threading.Lock()
        self._turns = [threading.Lock() for _ in range(_STRIPES)]

    def call(self, name: str, arguments: object) -> Any:
        """Make a call of the page.

        Args:
            name: A key of `CALLS`.
            arguments: The arguments of the call.

        Raises:
            AgentGraphError: The call is unknown or rejected.
        """
        if name not in CALLS:
            raise AgentGraphError(f"{shown(name)} is not a call; choose one of: {', '.join(CALLS)}")
        if name in ACTS and name != "reload" and self._is_read_only:
            raise SaverError(
                "the file of the threads is read-only, so nothing can run or change; "
                "change its permissions, or inspect a copy"
            )
        function = CALLS[name]
        return function(self, **checked(name, function, arguments))

    def about(self, thread_id: str | None = None) -> JsonObject:
        """Return the tree and the title: the data of the page before it opens a thread.

        Args:
            thread_id: A thread: the tree is the one of the page that ran it, if one did.
        """
        page = self._page
        if page is not None and thread_id is not None:
            return page.about(thread_id)
        graph = cast(RootGraph, self.runner.graph)
        return {
            "title": self.title,
            "version": version("langgraph-agentgraph"),
            "name": self.name,
            "trees": [*page.names] if page else [],
            "tree": tree_data(self.runner.engine.tree),
            "can_reload": page is not None and page.can_reload,
            "is_read_only": self._is_read_only,
            "context": context_data(self.runner),
            "has_prices": graph.prices is not None,
            "limits": limits_data(graph.limits),
            "has_changed": page is not None and page.has_changed,
        }

    def findings(self) -> JsonObject:
        """Return likely mistakes in the tree, as `lint` finds them."""
        if self._findings is None:
            self._findings = findings_data(self.runner)
        return {"findings": self._findings}

    def values(self, thread_id: str | None = None) -> JsonObject:
        """Return the names of the values that a run may set, and the present values of a thread.

        Args:
            thread_id: The thread; its long values are left out.
        """
        if self._names is None:
            self._names = value_names(self.runner)
        now = self.runner.engine.read(present_values, thread_id) if thread_id is not None else {}
        given = {name: as_json(value) for name, value in now.items()}
        short = {name: value for name, value in given.items() if _length(value) <= _LONG_VALUE}
        return {"names": sorted(self._names | now.keys()), "values": short}

    def threads(
        self,
        search: str = "",
        limit: int = 50,
        status: ListedStatus | None = None,
        before: str | None = None,
        others: bool = False,
    ) -> JsonObject:
        """Return a page of threads, newest first by start time, and the total number of threads.

        The call reads only the threads that it returns. With a status or a search, it reads others
        until the page is full; `more` means that further threads may fit. Only the texts of the newest
        threads are searched; a longer page searches more of them.

        Threads that other trees ran are left out; `others` means that there are some.

        Args:
            search: A part of the thread ids, or of the first or last text of a thread.
            limit: Maximum number of threads.
            status: The status that the threads must have; None accepts any.
            before: The last thread of the previous page.
            others: Whether threads of other trees are returned, too.

        Raises:
            UnknownThreadError: The thread `before` does not exist.
        """
        every = self._thread_ids(status, before)
        ids = every if others else [each for each in every if each not in self._others]
        limit = max(1, min(limit, _MOST_LISTED))
        searched = max(_SEARCHED, limit * _SEARCHED_A_ROW)
        rows: list[JsonObject] = []
        number = left_out = 0
        for number, thread_id in enumerate(ids, 1):
            reads = number - left_out <= searched
            row = self._fitting_row(thread_id, search.casefold(), status, searches_texts=reads)
            is_left_out = not others and thread_id in self._others
            left_out += is_left_out
            rows += [row] if row and not is_left_out else []
            if len(rows) == limit or left_out == _MOST_OTHERS:
                break
        further: JsonObject = {"others": True} if self._others else {}
        if not search and status is None:
            return {"threads": rows, "total": len(ids) - left_out, **further}
        if number < len(ids) or (bool(search) and number - left_out > searched):
            further["more"] = True
        return {"threads": rows, "total": len(rows), **further}

    def _thread_ids(self, status: ListedStatus | None, before: str | None) -> Sequence[str]:
        key, running = (status, before), [*start_times(self.runner.saver)]
        known = self._ids.get(key)
        found = self.runner.engine.read(thread_ids, "", status, before, running, known)
        self._keep(self._ids, key, found, _KEPT_LISTS)
        return found.ids

    def _fitting_row(
        self, thread_id: str, word: str, status: ListedStatus | None, *, searches_texts: bool
    ) -> JsonObject | None:
        if not searches_texts and word not in thread_id.casefold():
            return None
        row = self._row(thread_id)
        texts = (thread_id, row["first"], row["last"])
        fits = status in (None, row["status"]) and any(word in each.casefold() for each in texts)
        return row if fits else None

    def has_run(self, thread_id: str) -> bool:
        """Return whether the tree of the window ran a thread last."""
        return self.overview(thread_id).by is not None and thread_id not in self._others

    def _is_other(self, by: RanBy | None) -> bool:
        """Return whether a tree that ran a thread is another one than that of the window.

        A tree with the name of its root counts as the same tree, unless another tree of the page is
        exactly the one that ran the thread.
        """
        own = self.runner.engine.tree.fingerprint
        if by is None or by.fingerprint == own or not by.is_alike:
            return by is not None and not by.is_alike
        return self._page is not None and self._page.has_tree(by.fingerprint)

    def _row(self, thread_id: str) -> JsonObject:
        try:
            return row_data(thread_id, self.overview(thread_id))
        except SaverError as error:  # damaged, or with types that the reader does not trust
            return unreadable_row(thread_id, error)

    def thread(self, thread_id: str, line: str | None = None) -> JsonObject:
        """Return the status of a thread, and the turns of its present or of an older history line."""
        overview = self.overview(thread_id)
        if line is not None:
            overview = self.runner.engine.read(line_overview, thread_id, line, overview)
        return thread_data(thread_id, overview)

    def overview(self, thread_id: str) -> Overview:
        """Return the status of a thread; read only checkpoints that are not cached."""
        with self._turn(thread_id):
            known = self._overviews.get(thread_id)
            now = self.runner.engine.read(overview_of, thread_id, known)
            self._keep(self._overviews, thread_id, now, _KEPT)
        if self._is_other(now.by):
            self._others.add(thread_id)
        else:
            self._others.discard(thread_id)
        return now

    def version(self, thread_id: str) -> Hashable:
        """Return the version of a thread, which differs after each change; cheap to read."""
        run = active_run_on(self.runner.saver, thread_id)
        return self.runner.engine.read(version_of, thread_id, id(run))

    def timeline(
        self, thread_id: str, since: str | None = None, last: int | None = None, line: str | None = None
    ) -> JsonObject:
        """Return the timeline of a thread, as bars.

        Args:
            thread_id: The thread.
            since: The `upto` of the page's timeline; only new and changed bars are returned.
            last: Maximum number of latest steps; None uses the number of a first timeline.
            line: The latest checkpoint of a history line.
        """
        last = last or (_FIRST if since is None else _FURTHER)
        read = self.runner.timeline(thread_id, since=since, last=last, line=line)
        tree = self.runner.engine.tree
        data = {
            "bars": [bar_data(tree, each) for each in read.bars],
            "pauses": read.pauses,
            "upto": read.upto,
            "continues": read.continues,
        }
        return data if read.continues else {**data, "is_whole": read.is_whole}

    def flame(self, thread_id: str, turn: int | None = None) -> JsonObject:
        """Return where a turn spent time, tokens and money, by agent.

        Args:
            thread_id: The thread.
            turn: The number of the turn; None for the last one.
        """
        return flame_data(self.runner.flame(thread_id, turn=turn))

    def timeline_at(self, seen: Hashable, thread_id: str, since: str | None) -> JsonObject:
        """Return the timeline after `since`, as `timeline` does; one read serves several pages.

        Args:
            seen: The version of the thread.
            thread_id: The thread.
            since: The `upto` of the page's timeline.
        """
        key = seen, thread_id, since
        with self._turn(thread_id):
            if (data := self._timelines.get(key)) is None:
                data = self.timeline(thread_id, since)
                self._keep(self._timelines, key, data, _READ_LATELY)
        return data

    def _turn(self, thread_id: str) -> threading.Lock:
        return self._turns[hash(thread_id) % _STRIPES]

    def _keep(self, kept: OrderedDict[K, V], key: K, value: V, most: int) -> None:
        with self._guard:
            kept[key] = value
            kept.move_to_end(key)
            if len(kept) > most:
                kept.popitem(last=False)

    def conversation(
        self,
        thread_id: str,
        since: str | None = None,
        before: str | None = None,
        steps: int | None = 0,
        line: str | None = None,
    ) -> JsonObject:
        """Return a part of the conversation on a thread: at first, its last turn.

        Args:
            thread_id: The thread.
            since: The `upto` of the page's conversation; only later events are returned.
            before: The `begin` of the page's conversation; only earlier events are returned.
            steps: Minimum number of steps of the root; None for all.
            line: The latest checkpoint of a history line.
        """
        read = self.runner.engine.read
        return conversation_data(
            read(conversation, thread_id, since=since, before=before, steps=steps, line=line)
        )

    def lines(self, thread_id: str) -> JsonObject:
        """Return the history lines of a thread, the current one first."""
        return {"lines": [asdict(each) for each in self.runner.engine.read(lines, thread_id)]}

    def activation(
        self, thread_id: str, at: str, turn: int | None = None, line: str | None = None
    ) -> JsonObject:
        """Return one activation in detail: input, messages, tool calls, values and questions."""
        return activation_data(self.runner.activation(thread_id, at, turn=turn, line=line))

    def compare(
        self,
        thread_id: str,
        other: str | None = None,
        line: str | None = None,
        other_line: str | None = None,
    ) -> JsonObject:
        """Compare two history lines of a thread, or two threads, activation by activation."""
        rows = self.runner.compare(thread_id, other, line=line, other_line=other_line)
        tree = self.runner.engine.tree
        return {"rows": [difference_data(tree, each) for each in rows]}

    def start(
        self,
        text: str,
        thread_id: str | None = None,
        while_running: WhileRunning = "refuse",
        values: JsonObject | None = None,
        drop_pending: bool = False,
        limits: JsonObject | None = None,
        context: JsonObject | None = None,
    ) -> JsonObject:
        """Start a turn, on a new thread if `thread_id` is None."""
        return self._started(
            messages=text,
            thread_id=thread_id,
            values=values,
            while_running=while_running,
            drop_pending=drop_pending,
            limits=_limits(limits),
            context=context,
        )

    def answer(
        self,
        thread_id: str,
        answers: JsonObject,
        limits: JsonObject | None = None,
        context: JsonObject | None = None,
    ) -> JsonObject:
        """Answer questions, by their ids: an active run takes the answers, otherwise a run starts."""
        try:
            return self._started(
                thread_id=thread_id,
                answers=answers,
                limits=_limits(limits),
                context=context,
                while_running="steer",
            )
        except ThreadError as error:
            faults = self.runner.engine.read(faults_in, thread_id, answers)
            if faults:
                error.__dict__["questions"] = faults
            raise

    def resume(
        self,
        thread_id: str,
        limits: JsonObject | None = None,
        values: JsonObject | None = None,
        context: JsonObject | None = None,
    ) -> JsonObject:
        """Resume a thread that was stopped, failed or was killed, with other limits if given."""
        return self._started(
            thread_id=thread_id, limits=_limits(limits), values=values, context=context
        )

    def rewind(
        self,
        thread_id: str,
        at: str,
        turn: int | None = None,
        changes: Changes | None = None,
        limits: JsonObject | None = None,
        context: JsonObject | None = None,
    ) -> JsonObject:
        """Rewind a thread to an address or a step, and run again from there."""
        given = (changes or Changes()).arguments(self.runner, thread_id, at, turn)
        back, values = RewindArguments(at, **given), given.get("values")
        return self._started(
            thread_id=thread_id, at=back, values=values, limits=_limits(limits), context=context
        )

    def restart(
        self,
        thread_id: str,
        turn: int,
        text: str | None = None,
        replaces: str | None = None,
        context: JsonObject | None = None,
    ) -> JsonObject:
        """Run a turn again from its start.

        Args:
            thread_id: The thread.
            turn: The turn; the turns after it stay on an older history line.
            text: The new text of a message of the user.
            replaces: The id of this message, which is part of the input of the turn.
            context: LangGraph's runtime context.
        """
        back = turn_start(self.runner, thread_id, turn, text, replaces)
        return self._started(thread_id=thread_id, at=back, context=context)

    def fork(
        self,
        thread_id: str,
        at: str,
        variants: dict[str, Changes],
        turn: int | None = None,
        context: JsonObject | None = None,
    ) -> JsonObject:
        """Run variants from an address or a step, each on its own thread."""
        if not variants:
            raise AgentGraphError("fork: variants is empty; pass at least one variant, by name")
        given = {
            name: {**each.arguments(self.runner, thread_id, at, turn), "context": context}
            for name, each in variants.items()
        }
        threads = self._runs.start_many(self.runner, thread_id=thread_id, at=at, variants=given)
        return {"threads": threads}

    def stop(self, thread_id: str) -> JsonObject:
        """Stop the run on a thread before its next steps."""
        self.runner.stop(thread_id)
        return {}

    def steer(self, thread_id: str, text: str) -> JsonObject:
        """Send a message to the run on a thread."""
        return {"ids": self.runner.steer(thread_id, text)}

    def delete(self, thread_id: str) -> JsonObject:
        """Delete a thread."""
        self.runner.delete(thread_id)
        with self._guard:
            self._overviews.pop(thread_id, None)
            self._others.discard(thread_id)
        return {}

    def copy(
        self, thread_id: str, to: str, at: str | None = None, turn: int | None = None
    ) -> JsonObject:
        """Copy a thread, or its part before an address or a step."""
        self.runner.copy(thread_id, to, at=at, turn=turn)
        return {"thread_id": to}

    def reload(self) -> JsonObject:
        """Reload the trees if their files have changed, and return the data of the page."""
        page = self._page
        changed, error, waits = page.reload() if page else (False, None, False)
        about = page.about() if page and self.is_closed else self.about()  # closed if it is gone
        return {"changed": changed, "about": about, "error": error, "waits": waits}

    def show(self, runner: Runner) -> None:
        """Show the tree of another runner, and close the one before."""
        before, self.runner = self.runner, runner
        with self._guard:
            self._overviews.clear()
            self._ids.clear()
            self._timelines.clear()
            self._others.clear()
            self._findings = self._names = None
        before.close()

    def close(self) -> None:
        """Stop the runs that the page has started, wait for them, and close the runner."""
        self.is_closed = True
        self._runs.close(self.runner)

    @property
    def _is_read_only(self) -> bool:
        return bool(getattr(self.runner.saver, "is_read_only", False))

    def run_texts(self, thread_id: str) -> RunTexts | None:
        """Return the texts that the run on a thread streams; None if no run of this process does."""
        run = active_run_on(self.runner.saver, thread_id)
        if run is None:
            return None
        with self._guard:
            known = self._texts.get(thread_id)
            texts = self._texts[thread_id] = known if known and known.run is run else RunTexts(run)
        if texts is not known:
            run.released.add_done_callback(lambda _: self._forget(texts, thread_id))
        return texts

    def _forget(self, texts: RunTexts, thread_id: str) -> None:
        with self._guard:
            if self._texts.get(thread_id) is texts:
                del self._texts[thread_id]

    def _started(self, **arguments: object) -> JsonObject:
        thread_id = self._runs.start(self.runner, **arguments)
        self.run_texts(thread_id)  # from the first chunk on
        return {"thread_id": thread_id}


def _limits(limits: JsonObject | None) -> Limits | None:
    if not limits:
        return None
    known = Limits.__dataclass_fields__
    for name in limits:
        if name not in known:
            raise AgentGraphError(
                f"limits: {shown(name)} is not a limit; choose one of: {', '.join(known)}"
            )
    return Limits(**{**limits, **({"cost": _decimal(limits["cost"])} if "cost" in limits else {})})


def _length(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False))


def _decimal(given: object) -> Any:
    """Return a number or a text as a decimal; what is none is left for `Limits` to reject."""
    try:
        return Decimal(str(given))
    except InvalidOperation:
        return given


READS = (
    "about",
    "findings",
    "values",
    "threads",
    "thread",
    "timeline",
    "conversation",
    "flame",
    "activation",
    "lines",
    "compare",
)
ACTS = (
    "start",
    "answer",
    "resume",
    "rewind",
    "restart",
    "fork",
    "stop",
    "steer",
    "delete",
    "copy",
    "reload",
)

CALLS: Mapping[str, Callable[..., object]] = {name: getattr(Window, name) for name in (*READS, *ACTS)}
"""The calls by name."""
