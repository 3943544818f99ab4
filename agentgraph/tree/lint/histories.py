"""Findings about histories: an instruction names an agent whose messages its agent does not see."""

import re
from collections.abc import Iterator

from agentgraph.agents.budgets import Summarized, Trimmed
from agentgraph.agents.templates import results_in
from agentgraph.safe_repr import shown
from agentgraph.tree.lint.findings import Finding, addresses
from agentgraph.tree.lint.ways import Ways
from agentgraph.tree.places import Place
from agentgraph.tree.targets import targets

_WORD = re.compile(r"[A-Za-z_]\w*(?:-\w+)*")
_BEFORE = re.compile(r"(?:\b(?:[Tt]he|[Aa]gent|by|from|of|what)\s+|[`'\"\[])$")
_VERBS = "agent ask decide find note propose recommend reply report require say suggest want write"
_PAST = "asked decided found noted proposed replied reported said suggested wanted wrote"
_AFTER = re.compile(rf"(?:'s|\s+(?:(?:{'|'.join(_VERBS.split())})s?|{'|'.join(_PAST.split())}))\b")
"""Texts around the name of an agent, which may be a common word elsewhere."""
_NEAR = 10
"""Number of characters before a name that are looked at."""


class Histories:
    """Finds instructions that ask for messages that their agent does not see."""

    def __init__(self, ways: Ways) -> None:
        """Make it.

        Args:
            ways: The ways through the tree.
        """
        self.ways, self.tree, self.accesses = ways, ways.tree, ways.accesses
        self.speakers = [
            each for each in self.tree.places if each.kind.is_leaf and not each.kind.is_inner
        ]

    def hidden(self) -> Iterator[Finding]:
        """Yield the instructions that name an agent whose messages their agent does not see."""
        for place in self.speakers:
            text = getattr(place.agent, "instruction", None)
            if not isinstance(text, str):
                continue
            around = (read for each in place.around for read in self.accesses.reads(each))
            read, named = {each.name for each in around}, _agents_in(text) - {place.given_name}
            for other in self.speakers:
                is_named = other.given_name in named and not self.accesses.writes(other) & read
                if is_named and self._hides(place, other):
                    yield self._finding(place, other)

    def _finding(self, place: Place, other: Place) -> Finding:
        policy = _policy(place)
        key = getattr(other.agent, "output_key", None)
        value = f"the value {{{key}}}" if key else "a value that it writes"
        advice = f"its history={shown(policy)} leaves them out; pass 'shared', or name {value}"
        if _sees_request(place):
            advice = f"it sees only its input; name {value} there"
        return Finding(
            kind="hidden_history",
            address=place.path,
            name=other.given_name,
            way=addresses(self.ways.way_to(self.ways.first(place))),
            advice=advice,
        )

    def _hides(self, place: Place, other: Place) -> bool:
        if other.given_name in {name for each in place.around for name in self._reachable(each)}:
            return False  # it is named as a tool, or as the target of a transfer
        twins = [each for each in self.speakers if each.given_name == other.given_name]
        if not any(place in self._after(each) for each in twins):
            return False
        if _sees_request(place):
            return other.given_name not in [name for name, _ in results_in(_request(place) or "")]
        policy = _policy(place)
        if policy in ("own", "input"):
            return True
        if policy == "last":
            return not any(self._is_just_before(each, place) for each in twins)
        return policy == "path" and all(self._is_beside(each, place) for each in twins)

    def _reachable(self, place: Place) -> Iterator[str]:
        yield from targets(self.tree, place)
        yield from (lane.given_name for lane in self.tree.called.get(place, ()))

    def _after(self, place: Place) -> set[Place]:
        """Return the places that may run after another one in the same turn."""
        found: set[Place] = set()
        queue = [place]
        while queue:
            here = queue.pop()
            lane = self.ways.lane_of(here)
            queue += [] if lane.parent is None or lane.parent in found else [lane.parent]
            steps = self.tree.lanes(lane.parent) if lane.parent is not None else ()
            later = (each for each in steps if lane in self.ways.needed(each))
            for each in (*self.ways.next(here), *later):
                if each is not None and each not in found:
                    found |= {*self.ways.inside(each)}
                    queue.append(each)
        return found

    def _is_just_before(self, other: Place, place: Place) -> bool:
        if self.ways.lane_of(other) is not self.ways.lane_of(place):
            return True  # joined, or given by the lane around it: it may be the last message
        return place in self.ways.next(other)

    def _is_beside(self, other: Place, place: Place) -> bool:
        """Return whether an agent runs in a lane in which another one does not."""
        lane = self.ways.lane_of(other)
        return lane.parent is not None and lane not in place.around


def _agents_in(text: str) -> set[str]:
    """Return the words of a text that name agents, if there are such agents.

    >>> sorted(_agents_in("Write as the critic wants, or `boss`, not {draft}. Ask fact_checker."))
    ['boss', 'critic', 'fact_checker']
    """
    found: set[str] = set()
    for word in _WORD.finditer(text):
        before, after = text[max(0, word.start() - _NEAR) : word.start()], text[word.end() :]
        is_odd = "_" in word[0] or "-" in word[0]
        if not before.endswith("{") and (is_odd or _BEFORE.search(before) or _AFTER.match(after)):
            found.add(word[0])
    return found


def _policy(place: Place) -> object:
    policy: object = getattr(place.agent, "history", None)
    while isinstance(policy, Trimmed | Summarized):
        policy = policy.history
    return policy


def _sees_request(place: Place) -> bool:
    """Return whether an agent sees only a template that its step or the `each` around it fills."""
    return _request(place) is not None


def _request(place: Place) -> str | None:
    own = place.step.input if place.step is not None else None
    around = place.parent.agent if place.is_item and place.parent is not None else None
    text = own or getattr(around, "input", None)
    return text if isinstance(text, str) else None
