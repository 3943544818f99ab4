"""Finds the names of agents that have been renamed since a thread ran.

A thread keeps the names under which it began: its nodes, its addresses and its events have them, also
those that come. Code has the new names. So nothing that is saved has to be changed.
"""

from collections.abc import Callable, Mapping

from agentgraph.errors import AgentGraphError
from agentgraph.journal.changed_trees import outline_at
from agentgraph.journal.lines import root_line
from agentgraph.journal.thread_saver import ThreadSaver
from agentgraph.safe_repr import nearest, shown
from agentgraph.threads.engine import Engine, Former
from agentgraph.tree.changes import names_in
from agentgraph.tree.places import Tree

Make = Callable[[Mapping[str, str]], Engine]
"""Makes an engine for threads that know agents under other names, by the names that they have now."""


def former_engines(tree: Tree, renames: Mapping[str, str], make: Make) -> Former:
    """Return the function that returns the engine for a thread, by the names that it has.

    Args:
        tree: The tree, with the names that agents have now.
        renames: The names that agents had before, each with that which it has now.
        make: Makes an engine; called once for all threads of the same names.
    """
    engines: dict[frozenset[tuple[str, str]], Engine] = {}

    async def former(saver: ThreadSaver) -> Engine | None:
        saved = await saver.checkpoint()
        position = saved.position if saved else None
        if position is None or position["tree"] == tree.fingerprint:
            return None
        line, _ = await root_line(saver, lambda each: outline_at(each) is not None)
        outline = outline_at(line[-1])
        names = names_in(outline) if outline else set()
        known_as = {new: old for old, new in renames.items() if old in names and new not in names}
        if not known_as:
            return None
        key = frozenset(known_as.items())
        if key not in engines:
            engines[key] = make(known_as)
        return engines[key]

    return former


def check_renames(tree: Tree, renames: object) -> dict[str, str]:
    """Return the renames of a runner.

    Raises:
        AgentGraphError: They are not a mapping of old names to new ones, or do not fit the tree.
    """
    pairs: dict[str, str] = dict(renames) if isinstance(renames, Mapping) else {}
    if not pairs or not all(isinstance(name, str) for pair in pairs.items() for name in pair):
        raise AgentGraphError(
            f"renames={shown(renames)} does not map old names of agents to new ones; write "
            'renames={"old": "new"}'
        )
    names = {place.given_name for place in tree.places if not place.kind.is_inner}
    for old, new in pairs.items():
        if new not in names:
            near = nearest(new, names)
            hint = f"did you mean {shown(near)}?" if near else f"available: {', '.join(sorted(names))}"
            raise AgentGraphError(
                f"renames: no agent of the tree has the new name {shown(new)}; {hint}"
            )
        if old in names:
            raise AgentGraphError(
                f"renames: an agent of the tree still has the old name {shown(old)}; a thread could "
                "mean either, so leave it out, or give that agent another name"
            )
    return pairs
