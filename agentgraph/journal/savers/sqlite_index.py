"""The index of threads in a SQLite file; see `thread_index`."""

import json
import re
from collections.abc import Sequence

from agentgraph.journal.saved import REQUESTS
from agentgraph.journal.savers.thread_index import NOT_GIVEN, STATUS_AT, Begun, Scalar, ThreadQuery
from agentgraph.journal.schema import NOTES

_LARGEST = 2**63
"""From here on SQLite reads an integer as a float."""
_SYSTEM = ", ".join(f"'{key}'" for key in NOT_GIVEN)
_ENDED = f"""SELECT iif(space, substr(ended, 1, space - 1), ended),
CASE WHEN space THEN CAST(substr(ended, space) AS REAL) WHEN ended = '' THEN 0 END
FROM (SELECT ended, instr(ended, ' ') AS space FROM (SELECT
    CASE WHEN NEW.channel = '{NOTES}' AND EXISTS (
        SELECT 1 FROM checkpoints WHERE thread_id = NEW.thread_id AND checkpoint_ns = ''
        AND checkpoint_id = NEW.checkpoint_id
    ) THEN substr(NEW.task_id, {STATUS_AT}) ELSE '' END AS ended
))"""
"""The status and the deadline in a write, by a space between them.

The writes of a copy are saved before their checkpoint, and have none.
"""
_GONE = """thread_id = OLD.thread_id AND NOT EXISTS (
    SELECT 1 FROM checkpoints AS root WHERE root.thread_id = OLD.thread_id AND root.checkpoint_ns = ''
)"""
_GIVEN = """
SELECT {row}.thread_id, key, iif(type LIKE '%e', CAST(type AS BLOB), atom) AS value
FROM {source} json_each(CASE WHEN json_valid({text}) THEN {text} END)
WHERE atom IS NOT NULL AND key NOT IN ({system})
"""
"""The metadata that a run was given, of a row of `checkpoints`; what is not JSON has none.

Of the types of JSON only those of booleans end with an "e".
"""
_ROOTS = "(SELECT thread_id, metadata FROM checkpoints WHERE checkpoint_ns = '') AS saved,"


def _given(row: str, source: str = "") -> str:
    text = f"CAST({row}.metadata AS TEXT)"
    return _GIVEN.format(row=row, source=source, text=text, system=_SYSTEM)


_TRIGGERS = {
    "begun": f"""AFTER INSERT ON checkpoints WHEN NEW.checkpoint_ns = '' BEGIN
        UPDATE agentgraph_threads
        SET status = '', deadline = 0, began = min(began, NEW.checkpoint_id)
        WHERE thread_id = NEW.thread_id AND (status <> '' OR began > NEW.checkpoint_id);
        INSERT INTO agentgraph_threads SELECT NEW.thread_id, NEW.checkpoint_id, '', 0
        WHERE NOT EXISTS (SELECT 1 FROM agentgraph_threads WHERE thread_id = NEW.thread_id);
        INSERT INTO agentgraph_metadata SELECT * FROM ({_given("NEW")}) AS given WHERE NOT EXISTS (
            SELECT 1 FROM agentgraph_metadata AS known WHERE known.key = given.key
            AND known.value = given.value AND known.thread_id = NEW.thread_id
        );
    END""",
    "deleted": f"""AFTER DELETE ON checkpoints WHEN OLD.checkpoint_ns = '' BEGIN
        UPDATE agentgraph_threads SET status = '', deadline = 0
        WHERE thread_id = OLD.thread_id AND status <> '';
        DELETE FROM agentgraph_metadata WHERE {_GONE};
        DELETE FROM agentgraph_threads WHERE {_GONE};
    END""",
    "written": f"""AFTER INSERT ON writes WHEN NEW.checkpoint_ns <> '{REQUESTS}' BEGIN
        UPDATE agentgraph_threads SET (status, deadline) = ({_ENDED})
        WHERE thread_id = NEW.thread_id AND (status <> '' OR length(NEW.task_id) >= {STATUS_AT});
    END""",
}
"""Within a trigger the conflict clause of the statement that fires it holds, so none may be met."""

_DROPPED = " ".join(f"DROP TRIGGER IF EXISTS agentgraph_{name};" for name in _TRIGGERS)
"""An older index has no deadlines."""
_SCRIPT = f"""
BEGIN IMMEDIATE;
{_DROPPED}
DROP TABLE IF EXISTS agentgraph_threads;
CREATE TABLE agentgraph_threads (
    thread_id TEXT PRIMARY KEY, began TEXT, status TEXT, deadline REAL
) WITHOUT ROWID;
CREATE INDEX agentgraph_threads_newest ON agentgraph_threads (began DESC, thread_id, status);
CREATE INDEX agentgraph_threads_due ON agentgraph_threads (deadline) WHERE deadline IS NOT NULL;
CREATE TABLE IF NOT EXISTS agentgraph_metadata (
    thread_id TEXT, key TEXT, value, PRIMARY KEY (key, value, thread_id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS agentgraph_metadata_threads ON agentgraph_metadata (thread_id);
DELETE FROM agentgraph_metadata;
INSERT INTO agentgraph_threads
SELECT thread_id, min(checkpoint_id), '', 0 FROM checkpoints WHERE checkpoint_ns = ''
GROUP BY thread_id;
INSERT OR IGNORE INTO agentgraph_metadata
{_given("saved", _ROOTS)};
"""
_CREATED = [f"CREATE TRIGGER agentgraph_{name} {does};" for name, does in _TRIGGERS.items()]
_WORDS = " ".join(f"{_SCRIPT} {' '.join(_CREATED)} COMMIT;".split())
CREATE = re.sub(r" ?([=<>,()]+) ?", r"\1", _WORDS)
"""Creates the index and fills it; another process that did so at the same time changes nothing.

It is short, so that the first page of a file has the names of all tables, whatever becomes of the rest.
"""
IS_THERE = f"""
SELECT count(*) = {len(_TRIGGERS)} AND EXISTS (
    SELECT 1 FROM pragma_table_info('agentgraph_threads') WHERE name = 'deadline'
) FROM sqlite_master
WHERE type = 'trigger' AND name IN ({", ".join(f"'agentgraph_{name}'" for name in _TRIGGERS)})
"""
_KNOWN = """
SELECT thread_id, began FROM agentgraph_threads
WHERE thread_id IN (SELECT value FROM json_each(?))
"""


def page_of(query: ThreadQuery, after: Begun | None, limit: int) -> tuple[str, list[object]]:
    """Return the statement for the threads after one, newest first, and its values."""
    conditions, values = ["1"], list[object]()
    if after is not None:
        conditions.append("began <= ? AND (began < ? OR thread_id > ?)")
        values += [after[1], after[1], after[0]]
    if query.status is not None:
        conditions.append("(status IN ('', ?) OR thread_id IN (SELECT value FROM json_each(?)))")
        values += [query.status, json.dumps(query.running)]
    if query.due is not None:
        conditions.append("deadline IS NOT NULL AND deadline <= ?")
        values.append(query.due)
    for key, value in query.metadata.items():
        conditions.append(
            "EXISTS (SELECT 1 FROM agentgraph_metadata AS given WHERE given.key = ? "
            "AND given.value = ? AND given.thread_id = agentgraph_threads.thread_id)"
        )
        values += [key, _value(value)]
    return (
        f"SELECT thread_id, began FROM agentgraph_threads WHERE {' AND '.join(conditions)} "
        "ORDER BY began DESC, thread_id LIMIT ?"
    ), [*values, limit]


def known_of(ids: Sequence[str]) -> tuple[str, list[object]]:
    """Return the statement for those of some threads that are stored, and its values."""
    return _KNOWN, [json.dumps(ids)]


def _value(value: Scalar) -> object:
    """Return a value as the index has it; a boolean differs from a number."""
    if isinstance(value, bool):
        return b"true" if value else b"false"
    if isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        return float(value)
    return value
