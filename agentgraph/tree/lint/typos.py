"""Names of values that are typos of others."""

from collections.abc import Callable, Iterable
from functools import cached_property

from agentgraph.safe_repr import nearest
from agentgraph.tree.lint.accesses import Read
from agentgraph.tree.lint.inputs import Inputs
from agentgraph.tree.lint.run_results import Results
from agentgraph.tree.lint.ways import Ways
from agentgraph.tree.places import Place

_SHORTEST = 4
"""Number of letters up to which words resemble each other by chance."""
_ENDINGS = "adenrsy"
"""Letters that make another form of a word when they are added to it."""


class Typos:
    """The reads of values whose names are typos."""

    def __init__(self, ways: Ways, inputs: Inputs, results: Results) -> None:
        """Make them.

        Args:
            ways: The ways through the tree.
            inputs: The values that runs pass, or that are declared.
            results: The values that callers read.
        """
        self.ways, self.accesses, self.inputs = ways, ways.accesses, inputs
        self.results = results
        self.places = [each for each in ways.tree.places if not each.kind.is_inner]

    def meant_by(self, node: Place, read: Read) -> str | None:
        """Return the value that a read of another name means, or None.

        Args:
            node: The node place that reads.
            read: The read of a value that nothing writes.
        """
        if self._any_writes_all:
            return None
        known = self.ways.written_before(node) | self.inputs.names
        if read.phase != "start":
            known |= self.ways.leaving(node)
        if read.name not in self._often_read:
            known |= self._often_read
        return typo_of(read.name, known, unused=self._unused)

    @cached_property
    def meant(self) -> frozenset[str]:
        """The values of whose names there are typos, so that they only seem not to be read."""
        written = self.accesses.written_anywhere
        open_reads = (
            (place, read)
            for place in self.places
            for read in self.accesses.reads(place)
            if read.certainty != "optional" and read.name not in written
        )
        meant = (self.meant_by(self.ways.first(place), read) for place, read in open_reads)
        return frozenset(each for each in meant if each is not None)

    @cached_property
    def _any_writes_all(self) -> bool:
        return any(map(self.accesses.writes_all, self.places))

    @cached_property
    def _unused(self) -> frozenset[str]:
        """The values that seem to be read under another name: nothing else reads them."""
        read = self.accesses.read_anywhere
        written = {
            name
            for place in self.places
            for name in self.accesses.writes(place) - read - self.results.of(place)
            if name != getattr(place.agent, "as_", None)  # which `ctx.item` reads, too
        }
        return frozenset(written)

    @cached_property
    def _often_read(self) -> frozenset[str]:
        """The values that several places read, so that runs probably pass them."""
        names = [name for place in self.places for name in {r.name for r in self.accesses.reads(place)}]
        return frozenset(each for each in names if names.count(each) > 1)


def typo_of(name: str, known: Iterable[str], *, unused: Iterable[str] = ()) -> str | None:
    """Return the name of which a name is a typo, word by word, or None.

    Names of which a word is another one, a number, or another form such as a plural, are not typos.

    >>> [typo_of("drfat_text", ["draft_text"]), typo_of("max_price", ["min_price"])]
    ['draft_text', None]
    >>> [typo_of("topics", ["topic"]), typo_of("topic", [], unused=["topics"])]
    [None, 'topics']

    Args:
        name: The name.
        known: Other names, which are used properly.
        unused: Further names, which seem to be used under another name: they may differ more.
    """
    close = [each for each in known if each != name and _words_are(_is_slip, name, each)]
    alike = [each for each in unused if each != name and _words_are(_is_near, name, each)]
    return next(iter(sorted(close)), None) or nearest(name, alike)


def _words_are(alike: Callable[[str, str], bool], one: str, other: str) -> bool:
    ours, theirs = one.lower().split("_"), other.lower().split("_")
    if "".join(ours) == "".join(theirs):
        return True
    return len(ours) == len(theirs) and all(
        a == b or alike(a, b) for a, b in zip(ours, theirs, strict=True)
    )


def _is_near(one: str, other: str) -> bool:
    is_short = len(one) == len(other) <= _SHORTEST
    return _is_swapped(one, other) or (not is_short and nearest(one, [other]) is not None)


def _is_slip(one: str, other: str) -> bool:
    """Return whether words differ by one slip of the pen, and not by their ending."""
    if _is_swapped(one, other):
        return True
    start = _same_start(one, other)
    mine, theirs = one[start:], other[start:]
    end = _same_start(mine[::-1], theirs[::-1])
    letters = (mine[: len(mine) - end], theirs[: len(theirs) - end])
    is_ending = end == 0 and (all(letters) or "".join(letters) in _ENDINGS)
    is_long = max(len(one), len(other)) > _SHORTEST
    return is_long and max(map(len, letters)) == 1 and not is_ending and "".join(letters).isalpha()


def _same_start(one: str, other: str) -> int:
    return next(
        (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b),
        min(len(one), len(other)),
    )


def _is_swapped(one: str, other: str) -> bool:
    pairs = range(len(one) - 1)
    return one != other and any(one[:i] + one[i + 1] + one[i] + one[i + 2 :] == other for i in pairs)
