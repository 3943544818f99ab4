"""Findings about values: read but not written, written but not read, written in parallel."""

from collections.abc import Iterator, Sequence
from functools import cached_property

from agentgraph.agents.prebuilt.plans import PLAN_VALUES
from agentgraph.safe_repr import shown
from agentgraph.tree.lint.accesses import Accesses, Read
from agentgraph.tree.lint.findings import Finding, addresses
from agentgraph.tree.lint.inputs import Inputs
from agentgraph.tree.lint.run_results import Results
from agentgraph.tree.lint.typos import Typos, typo_of
from agentgraph.tree.lint.ways import EVERYTHING, Way, Ways
from agentgraph.tree.places import Place


class ValueFindings:
    """Finds mistakes with values."""

    def __init__(self, ways: Ways, inputs: Inputs) -> None:
        """Make it.

        Args:
            ways: The ways through the tree.
            inputs: The values that runs pass, or that are declared.
        """
        self.ways, self.inputs = ways, inputs
        self.accesses: Accesses = ways.accesses
        self.results = Results(ways)
        self.typos = Typos(ways, inputs, self.results)
        self.places = [each for each in ways.tree.places if not each.kind.is_inner]

    def unwritten(self) -> Iterator[Finding]:
        """Yield the reads of values that nothing has written."""
        for place in self.places:
            for read in self.accesses.reads(place):
                if read.certainty != "optional" and read.name not in self.inputs.names:
                    yield from self._unwritten(place, read)

    def _unwritten(self, place: Place, read: Read) -> Iterator[Finding]:
        name, node = read.name, self.ways.first(place)
        if name not in self.accesses.written_anywhere:
            meant = self.typos.meant_by(node, read)
            if meant is not None:
                advice = f"did you mean {shown(meant)}? Else name it in inputs="
                yield self._missing(place, read, self.ways.way_to(node), advice)
            return
        way = self._way(place, node, read)
        if way is not None:
            advice = (
                f"write it before on each way, or name it in inputs=; {read.option} reads it"
                f"{_optional(read)}"
            )
            yield self._missing(place, read, way, advice)

    def _missing(self, place: Place, read: Read, way: Way, advice: str) -> Finding:
        return Finding(
            kind="unwritten_value",
            address=place.path,
            name=read.name,
            way=addresses(way),
            advice=advice,
        )

    def _way(self, place: Place, node: Place, read: Read) -> Way | None:
        """Return a way on which a value that is written elsewhere is missing for a read."""
        if read.phase == "tool":  # the model may call it in a later turn
            return None
        if read.phase == "end":
            nodes = self.ways.nodes_inside(place)
            written = [self.ways.written_before(each) | self.ways.leaving(each) for each in nodes]
            is_missing = not any({read.name, EVERYTHING} & each for each in written)
            return self.ways.missing_on(node, read.name) if is_missing else None
        way = self.ways.missing_on(node, read.name)
        if way is None or read.certainty == "always":
            return way
        before = self.ways.written_before(node)
        codes = [code for _, code in (*self.accesses.own(place), *self.accesses.asked(place))]
        knows = any(self.ways.knows_more(code, read.name, node) for code in codes)
        return None if knows or {read.name, EVERYTHING} & before else way

    def unread(self) -> Iterator[Finding]:
        """Yield the writes of values that nothing reads."""
        read = self.accesses.read_anywhere
        if not read or any(self.accesses.reads_all(each) for each in self.places):
            return  # all values are for the caller, or any of them may be read
        dangling = read - self.accesses.written_anywhere
        known = {
            *self.typos.meant,
            *self._declared_by_middleware,
            *self.ways.tree.active_keys,
            *self.inputs.names,
        }
        for place in self.places:
            results = self.results.of(place)
            item = getattr(place.agent, "as_", None)  # which `ctx.item` reads, too
            for name in sorted(self.accesses.writes(place) - read - known - {item}):
                is_result = name in results
                meant = typo_of(name, read, unused=() if is_result else dangling)
                if not name.startswith("_") and (meant is not None or not is_result):
                    yield self._unread(place, name, meant)

    def _unread(self, place: Place, name: str, meant: str | None) -> Finding:
        advice = "read it, leave it out, or name it in inputs= if the caller reads it"
        return Finding(
            kind="unread_value",
            address=place.path,
            name=name,
            way=addresses(self.ways.way_to(self.ways.first(place))),
            advice=advice if meant is None else f"did you mean {shown(meant)}? Else {advice}",
        )

    @cached_property
    def _declared_by_middleware(self) -> frozenset[str]:
        chats = (place for place in self.places if place.kind.calls_model)
        return frozenset(name for place in chats for name in place.rules.writes(place.agent))

    def conflicts(self) -> Iterator[Finding]:
        """Yield the values that lanes, or calls of tools, write in parallel without a reducer."""
        kept = {*self._declared_by_middleware, *PLAN_VALUES, *self.ways.tree.active_keys}
        merged = self.inputs.merged | (kept - self.inputs.names)
        for place in self.places:
            if place.kind.is_parallel and not place.kind.first_wins:
                for name, writers in self._writers(place).items():
                    if name not in merged:
                        yield self._conflict(place, name, writers)
            elif getattr(place.agent, "parallel_tools", False) is True:
                yield from (
                    self._conflict_of_tools(place, name, tools)
                    for name, tools in self._writing_tools(place).items()
                    if name not in merged and len(tools) > 1
                )

    def _writing_tools(self, place: Place) -> dict[str, list[str]]:
        """Return the values that the tools of a chat agent may write, each with these tools."""
        tools = [(tool, code.writes) for tool, code in self.accesses.own(place) if tool is not None]
        tools += [
            (lane.given_name, {*self.ways.written_in(lane)} - {EVERYTHING})
            for lane in self.ways.tree.lanes(place)
        ]
        found: dict[str, list[str]] = {}
        for tool, names in tools:
            for name in sorted(names - self._declared_by_middleware):
                found.setdefault(name, []).append(tool)
        return found

    def _conflict_of_tools(self, place: Place, name: str, tools: list[str]) -> Finding:
        return Finding(
            kind="conflicting_writes",
            address=place.path,
            name=name,
            way=addresses(self.ways.way_to(place)),
            advice=f"pass parallel_tools=False, or declare a reducer for it in values= "
            f"(the tools {', '.join(map(shown, tools))} write it)",
        )

    def _writers(self, place: Place) -> dict[str, list[Place]]:
        """Return the values that several lanes of a place may write, each with these lanes."""
        lanes = [each for each in self.ways.tree.lanes(place) if not each.undoes]
        found: dict[str, list[Place]] = {}
        for lane in lanes:
            for name in sorted(self.ways.written_in(lane) - {EVERYTHING}):
                found.setdefault(name, []).append(lane)
        if place.kind.has_items:
            return {name: lanes for name, lanes in found.items() if name in self.ways.leaving(place)}
        return {name: several for name, several in found.items() if len(several) > 1}

    def _conflict(self, place: Place, name: str, writers: Sequence[Place]) -> Finding:
        return Finding(
            kind="conflicting_writes",
            address=place.path,
            name=name,
            way=addresses([*self.ways.way_to(place), *(self._writer(each, name) for each in writers)]),
            advice="declare a reducer for it in values=, or write to different names",
        )

    def _writer(self, lane: Place, name: str) -> Place:
        nodes = self.ways.nodes(lane)
        return next((each for each in nodes if name in self.ways.leaving(each)), lane)


def _optional(read: Read) -> str:
    is_template = read.option.split(" ")[-1] in ("instruction", "prompt", "input")
    return f", and {{{read.name}?}} copes without it" if is_template else ""
