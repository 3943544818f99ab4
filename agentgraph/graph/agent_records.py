"""The saved state of chat agents' middleware: records, and the changes of records that are stored.

A record grows with the talk: middleware that adds a reminder in each turn has one more each time.
Stored whole with each step, it would make a thread grow with the square of its turns. So a node writes
only what it changed, and the channel folds the changes. The root of a tree folds them to records. A
lane inside stores the changes as they are: the enclosing lanes have the records, and take the changes
when it has ended.

A derived agent's own entries (the plan of a `plan_execute`) are a section of a record, too.

Pure: nothing here knows the entries of records.
"""

from collections.abc import Iterator, Mapping, Sequence

from agentgraph.graph.values import is_same

AgentRecord = Mapping[str, Mapping[str, object]]
"""The saved state of one chat agent: sections by name, each of entries by key."""


AgentRecords = Mapping[str, AgentRecord]
"""Records by the node of the agent's place."""


RecordChange = Mapping[str, Mapping[str, list[object]]]
"""The changed entries of a record: each a list of its new value, empty if it is gone."""


RecordChanges = Mapping[str, RecordChange]
"""Changes by the node of the agent's place."""


_KEPT = "kept"
"""The section of a record with what a derived agent keeps."""


def kept_for(records: AgentRecords, node: str) -> Mapping[str, object]:
    """Return the records of the derived agent at a node, by key."""
    return records.get(node, {}).get(_KEPT, {})


def keeping(node: str, entries: Mapping[str, object]) -> RecordChanges:
    """Return the changes that keep entries for the derived agent at a node."""
    return {node: {_KEPT: {key: [value] for key, value in entries.items()}}}


def change_between(before: AgentRecord, after: AgentRecord) -> dict[str, dict[str, list[object]]]:
    """Return the change that turns one record into another.

    >>> change_between({"removed": {"1": True}}, {"removed": {"2": True}})
    {'removed': {'2': [True], '1': []}}
    """
    change: dict[str, dict[str, list[object]]] = {}
    for section in dict.fromkeys([*before, *after]):
        old, new = before.get(section, {}), after.get(section, {})
        entries = {k: [v] for k, v in new.items() if k not in old or not is_same(old[k], v)}
        entries |= {key: [] for key in old if key not in new}
        if entries:
            change[section] = entries
    return change


def applied(records: AgentRecords, several: Sequence[RecordChanges]) -> dict[str, AgentRecord]:
    """Return records after several changes, in order: the reducer of the root.

    >>> applied({}, [{"writer": {"state": {"rounds": [1]}}}, {"writer": {"state": {"rounds": [2]}}}])
    {'writer': {'state': {'rounds': 2}}}
    """
    result = dict(records)
    for node, change in collected({}, several).items():
        record = {**result.get(node, {})}
        for section, entries in change.items():
            merged = {**record.get(section, {}), **{key: v[0] for key, v in entries.items() if v}}
            record[section] = {k: v for k, v in merged.items() if entries.get(k, (v,))}
        result[node] = {section: entries for section, entries in record.items() if entries}
    return {node: record for node, record in result.items() if record}


def collected(changes: RecordChanges, several: Sequence[RecordChanges]) -> dict[str, RecordChange]:
    """Return changes merged with later ones, in order: the reducer of a lane inside the tree."""
    result: dict[str, RecordChange] = dict(changes)
    new: dict[str, dict[str, dict[str, list[object]]]] = {}
    for node, section, entries in _sections(several):
        folded = new.setdefault(node, {})
        if section not in folded:
            folded[section] = {**changes.get(node, {}).get(section, {})}
        folded[section].update(entries)
    for node, sections in new.items():
        result[node] = {**result.get(node, {}), **sections}
    return result


def _sections(
    several: Sequence[RecordChanges],
) -> Iterator[tuple[str, str, Mapping[str, list[object]]]]:
    for changes in several:
        for node, change in changes.items():
            for section, entries in change.items():
                yield node, section, entries
