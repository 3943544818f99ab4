"""Long threads of which a database knows that nothing was discarded: their events need no second look.

The problem: a saver lists the newest checkpoints first, and what came later decides whether an event is
one: a `discarded` event may name it, or the thread may have gone on from before it. So a thread is read
whole before its first event is known. Of most long threads a database can tell that there is no such
thing, without decoding a value: the root has one line and is alone, no step failed or asked, and no
note can discard anything, because the text is not there. Such a thread is read in order, part by part.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from agentgraph.graph.internals import ERROR, INTERRUPT, RETURN
from agentgraph.graph.nodes.lane import ATTEMPTS
from agentgraph.graph.open_types import Saver
from agentgraph.graph.strict_serializer import StrictSerializer
from agentgraph.graph.sync_async import Call
from agentgraph.journal.saved import COPIED, REQUESTS
from agentgraph.journal.savers.listing import Rows, query_call
from agentgraph.journal.schema import NOTES


def _query(writes: str, metadata: Callable[[str], str], has: Callable[[str], str]) -> str:
    """Return the query for the checkpoints of the root, each with the one before it, in order.

    It has no rows for a short thread, and for one in which anything may have been discarded.

    Args:
        writes: The table of what steps wrote.
        metadata: Returns the term for a key of a checkpoint's metadata.
        has: Returns the condition that what a step wrote has a text.
    """
    return f"""
SELECT checkpoint_id, coalesce(parent_checkpoint_id, '') FROM checkpoints
WHERE thread_id = {{thread_id}} AND checkpoint_ns = '' AND {{least}} <= (
    SELECT count(*) FROM checkpoints WHERE thread_id = {{thread_id}} AND checkpoint_ns = ''
) AND NOT EXISTS (
    SELECT 1 FROM checkpoints WHERE thread_id = {{thread_id}} AND (
        checkpoint_ns NOT IN ('', '{REQUESTS}') OR checkpoint_ns = '' AND (
            coalesce({metadata("source")}, '') NOT IN ('input', 'loop')
            OR {metadata(COPIED)} IS NOT NULL
        )
    )
) AND NOT EXISTS (
    SELECT 1 FROM {writes} WHERE thread_id = {{thread_id}} AND checkpoint_ns = '' AND (
        channel IN ('{ERROR}', '{INTERRUPT}', '{ATTEMPTS}')
        OR channel IN ('position', '{RETURN}', '{NOTES}')
            AND (coalesce(type, '') <> 'msgpack' OR {has("discarded")})
        OR channel = '{NOTES}' AND ({has("interrupted")} OR {has("error")})
    )
)
ORDER BY checkpoint_id
"""


_IN_FILE = _query(
    "writes",
    "json_extract(CAST(metadata AS TEXT), '$.{}')".format,
    "instr(value, CAST('{}' AS BLOB)) > 0".format,
)
_IN_DATABASE = _query(
    "checkpoint_writes", "metadata->>'{}'".format, "position('{}'::bytea in blob) > 0".format
)
_READABLE = (JsonPlusSerializer, StrictSerializer)
"""Serializers that store texts as they are; others may encrypt them."""


def plain_line(saver: Saver, thread_id: str, least: int) -> Call | None:
    """Return the call for the rows of a thread, for `ids_in_order`; None if a saver cannot tell.

    Args:
        saver: The saver.
        thread_id: The thread.
        least: The least number of checkpoints of a thread that is not short.
    """
    if type(saver.serde) not in _READABLE:
        return None
    values = {"thread_id": thread_id, "least": least}
    return query_call(saver, None, _IN_FILE, values, in_database=_IN_DATABASE)


def ids_in_order(rows: Rows) -> Sequence[str]:
    """Return the ids of the checkpoints of the root, in order; none if they are not one line."""
    is_line = all(after[1] == each[0] for each, after in pairwise(rows))
    return [each[0] for each in rows] if rows and not rows[0][1] and is_line else ()
