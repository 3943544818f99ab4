"""The story of a thread: a line of it, read once, as all that tell of it need it.

Each report of a thread (events, visits, timelines, activations, comparisons) is a projection of a
story: a function that takes one. Facts that several need are computed here, when first asked for.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from agentgraph.graph.stamps import Entry
from agentgraph.journal.activations import Activation, ActivationKey, activations_in
from agentgraph.journal.changed_trees import opened
from agentgraph.journal.entries import entries_of
from agentgraph.journal.lines import (
    RootLine,
    begun_thread,
    is_foreign,
    is_inside,
    known_line,
    lanes_of_any_tree,
    leading,
    leading_checkpoints,
    past_attempts,
)
from agentgraph.journal.saved import Saved
from agentgraph.journal.step_runs import StepRuns
from agentgraph.journal.steps import AgentStep, agent_steps_in
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.tree.places import Tree


class Story:
    """A line of a thread, or its last steps.

    Attributes:
        tree: The runner's tree.
        every: Its checkpoints in all namespaces, each newest first.
        is_running: Whether a run is active on the thread, and this line is the present one.
    """

    def __init__(self, tree: Tree, every: Iterable[Saved], *, is_running: bool = False) -> None:
        self.tree, self.every, self.is_running = tree, [*every], is_running
        self._runs: dict[str, StepRuns] = {}

    @cached_property
    def lanes(self) -> Sequence[Saved]:
        """The checkpoints of the tree's lanes, without those of LangGraph graphs in it."""
        return [e for e in self.every if not (e.namespace and is_foreign(self.tree, e))]

    @cached_property
    def with_other_trees(self) -> Sequence[Saved]:
        """The same, with those of lanes of other trees that ran the thread before."""
        return lanes_of_any_tree(self.tree, self.every, self.lanes)

    @cached_property
    def roots(self) -> Mapping[str, Saved]:
        """The checkpoints of the root, by id."""
        return {each.id: each for each in self.every if not each.namespace}

    @cached_property
    def by_key(self) -> Mapping[tuple[str, str], Saved]:
        """All checkpoints, by namespace and id."""
        return {each.key: each for each in self.every}

    @cached_property
    def after(self) -> Mapping[tuple[str, str], Saved]:
        """The checkpoint after each one in its lane, by namespace and id of that one."""
        return {(each.namespace, each.parent_id): each for each in self.every}

    @cached_property
    def steps(self) -> Sequence[AgentStep]:
        """The steps of agents, in order."""
        return agent_steps_in(self.tree, self.lanes)

    @cached_property
    def entries(self) -> Sequence[Entry]:
        """Its events that are not discarded, in order."""
        return entries_of(self.tree, self.with_other_trees)

    @cached_property
    def activations(self) -> Mapping[ActivationKey, Activation]:
        """The activations of agents, in order of their first steps."""
        return activations_in(self.tree, self.steps, self.entries)

    def steps_in(self, turn: int) -> list[AgentStep]:
        """Return the steps of agents in a turn, in order."""
        return [each for each in self.steps if each.visit.turn == turn]

    def runs_of(self, root: Saved) -> StepRuns:
        """Return the runs of one step of the root."""
        if (runs := self._runs.get(root.id)) is None:
            is_over = root.key in self.after
            inside = self._by_root[root.id]
            runs = StepRuns(root, inside, is_over=is_over, is_running=self.is_running)
            self._runs[root.id] = runs
        return runs

    def is_past(self, namespace: str) -> bool:
        """Return whether a namespace is that of an attempt that another one followed, or inside it."""
        return is_inside(namespace, self._past)

    @cached_property
    def _past(self) -> set[str]:
        return past_attempts(self.every)

    @cached_property
    def _by_root(self) -> Mapping[str, Sequence[Saved]]:
        by_root: dict[str, list[Saved]] = defaultdict(list)
        for saved in self.every:
            by_root[saved.root_id].append(saved)
        return by_root


async def present_story(saver: ThreadSaver, roots: RootLine | None = None) -> Story:
    """Return the story of the present line of a thread.

    Args:
        saver: The thread.
        roots: The checkpoints of the root since which it is needed; by default all is.
    """
    since = () if roots is None else (roots.first, roots.read)
    return Story(saver.tree, await leading_checkpoints(saver.lean(), *since))


async def whole_story(saver: ThreadSaver, head: str | None = None) -> Story:
    """Return the story of a line of a thread, all of which is read: also what its checks need.

    Raises:
        UnknownThreadError: The saver has no such thread, and nothing runs on it.
        ThreadError: The thread has no line with that head; or as `open_thread` does.
    """
    every = await saver.lean().checkpoints()
    latest = next((each for each in every if not each.namespace), None) or await begun_thread(saver)
    if latest is not None:
        await opened(saver, latest)
    return Story(saver.tree, leading(every) if head is None else known_line(saver, head, every))


async def story_of(saver: ThreadSaver, head: str | None) -> Story:
    """Return the story of a line of a thread, by its head; for None of the present one.

    Raises:
        ThreadError: The thread has no line with that head.
    """
    if head is None:
        return await present_story(saver)
    return Story(saver.tree, known_line(saver, head, await saver.lean().checkpoints()))
