"""The index of threads in a PostgreSQL database; see `thread_index`.

Its triggers act with the rights of who created it: others who may save need none on its tables.
"""

from collections.abc import Sequence
from typing import Any, cast

import psycopg
from psycopg import sql
from psycopg.types.json import Jsonb

from agentgraph.journal.saved import REQUESTS
from agentgraph.journal.savers.postgres_database import Connection
from agentgraph.journal.savers.thread_index import NOT_GIVEN, STATUS_AT, Begun, ThreadQuery
from agentgraph.journal.schema import NOTES

_TABLES = """
CREATE TABLE IF NOT EXISTS {threads} (
    thread_id text COLLATE "C" PRIMARY KEY, began text COLLATE "C" NOT NULL,
    status text COLLATE "C" NOT NULL
);
ALTER TABLE {threads} ADD COLUMN IF NOT EXISTS deadline double precision;
CREATE INDEX IF NOT EXISTS agentgraph_threads_due ON {threads} (deadline) WHERE deadline IS NOT NULL;
CREATE INDEX IF NOT EXISTS agentgraph_threads_newest ON {threads} (began DESC, thread_id, status);
CREATE TABLE IF NOT EXISTS {metadata} (
    pair bytea NOT NULL, thread_id text COLLATE "C" NOT NULL, PRIMARY KEY (pair, thread_id)
);
CREATE INDEX IF NOT EXISTS agentgraph_metadata_threads ON {metadata} (thread_id);
CREATE OR REPLACE FUNCTION {pair}(key text, value jsonb) RETURNS bytea LANGUAGE sql IMMUTABLE
SET search_path = pg_catalog AS $$
SELECT sha256(convert_to(jsonb_build_array(key, CASE jsonb_typeof(value)
    WHEN 'number' THEN to_jsonb(trim_scale((value #>> '{{}}')::numeric)) ELSE value
END)::text, 'UTF8'))
$$;
"""
"""A pair of metadata is stored as a digest: texts may be longer than the entries of an index."""
_FUNCTIONS = """
CREATE OR REPLACE FUNCTION {begun}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog AS $$
BEGIN
    UPDATE {threads}
    SET status = '', deadline = 0, began = least(began, NEW.checkpoint_id COLLATE "C")
    WHERE thread_id = NEW.thread_id AND (status <> '' OR began > NEW.checkpoint_id);
    IF NOT EXISTS (SELECT 1 FROM {threads} WHERE thread_id = NEW.thread_id) THEN
        INSERT INTO {threads} (thread_id, began, status, deadline)
        VALUES (NEW.thread_id, NEW.checkpoint_id, '', 0) ON CONFLICT DO NOTHING;
    END IF;
    INSERT INTO {metadata}
    SELECT {pair}(given.key, given.value), NEW.thread_id FROM jsonb_each(NEW.metadata) AS given
    WHERE jsonb_typeof(given.value) IN ('string', 'number', 'boolean') AND given.key <> ALL ({system})
    ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION {deleted}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog AS $$
BEGIN
    UPDATE {threads} SET status = '', deadline = 0 WHERE thread_id = OLD.thread_id AND status <> '';
    IF NOT EXISTS (
        SELECT 1 FROM {checkpoints} WHERE thread_id = OLD.thread_id AND checkpoint_ns = ''
    ) THEN
        DELETE FROM {metadata} WHERE thread_id = OLD.thread_id;
        DELETE FROM {threads} WHERE thread_id = OLD.thread_id;
    END IF;
    RETURN NULL;
END $$;
CREATE OR REPLACE FUNCTION {written}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog AS $$
DECLARE
    ended text := '';
    until double precision;
BEGIN
    IF NEW.channel = {notes} AND length(NEW.task_id) >= {status_at} AND EXISTS (
        SELECT 1 FROM {checkpoints} WHERE thread_id = NEW.thread_id AND checkpoint_ns = ''
        AND checkpoint_id = NEW.checkpoint_id
    ) THEN
        ended := substr(NEW.task_id, {status_at});
    END IF;
    until := CASE WHEN ended = '' THEN '0' ELSE nullif(split_part(ended, ' ', 2), '') END;
    ended := split_part(ended, ' ', 1);
    UPDATE {threads} SET status = ended, deadline = until
    WHERE thread_id = NEW.thread_id AND (status <> ended OR deadline IS DISTINCT FROM until);
    RETURN NULL;
END $$;
"""
_TRIGGERS = {
    "begun": "INSERT OR UPDATE ON {checkpoints} FOR EACH ROW WHEN (NEW.checkpoint_ns = '')",
    "deleted": "DELETE ON {checkpoints} FOR EACH ROW WHEN (OLD.checkpoint_ns = '')",
    "written": "INSERT OR UPDATE ON {writes} FOR EACH ROW WHEN (NEW.checkpoint_ns <> {requests})",
}
_FILL = """
DELETE FROM {threads};
DELETE FROM {metadata};
INSERT INTO {threads} (thread_id, began, status, deadline)
SELECT thread_id, min(checkpoint_id COLLATE "C"), '', 0 FROM {checkpoints}
WHERE checkpoint_ns = '' GROUP BY thread_id;
INSERT INTO {metadata}
SELECT DISTINCT {pair}(given.key, given.value), saved.thread_id
FROM {checkpoints} AS saved, jsonb_each(saved.metadata) AS given
WHERE saved.checkpoint_ns = '' AND jsonb_typeof(given.value) IN ('string', 'number', 'boolean')
AND given.key <> ALL ({system});
"""
_IS_THERE = """
SELECT count(*) = {number} AND bool_and(
    has_table_privilege(to_regclass({threads}), 'SELECT')
    AND has_table_privilege(to_regclass({metadata}), 'SELECT')
) AND EXISTS (
    SELECT 1 FROM pg_attribute WHERE attrelid = to_regclass({threads}) AND attname = 'deadline'
) FROM pg_trigger
WHERE tgrelid IN (to_regclass({checkpoints}), to_regclass({writes})) AND tgname LIKE 'agentgraph\\_%'
"""


def has_index(connection: Connection, schema: str) -> bool:
    """Return whether the tables of a schema have an index of threads that may be read."""
    names = {
        key: sql.Literal(_named(schema, name).as_string(connection)) for key, name in _NAMES.items()
    }
    query = sql.SQL(_IS_THERE).format(number=sql.Literal(len(_TRIGGERS)), **names)
    row = connection.execute(query).fetchone()
    return bool(row and row[0])


def create_index(connection: Connection, schema: str) -> bool:
    """Create the index of threads, fill it, and return whether that could be done.

    Savers wait meanwhile, so that none is missed; who may not create it lists threads without.
    """
    parts = {key: _named(schema, name) for key, name in _NAMES.items()}
    own = {key: _named(schema, f"agentgraph_{key}") for key in ("pair", *_TRIGGERS)}
    given: dict[str, sql.Composable] = {
        **parts,
        **own,
        "system": sql.Literal([*NOT_GIVEN]),
        "notes": sql.Literal(NOTES),
        "requests": sql.Literal(REQUESTS),
        "status_at": sql.Literal(STATUS_AT),
    }
    lock = (
        f"SET LOCAL lock_timeout = {1000 * LOCK_SECONDS:.0f};"
        "LOCK TABLE {checkpoints}, {writes} IN SHARE ROW EXCLUSIVE MODE;"
    )
    triggers = (
        f"DROP TRIGGER IF EXISTS agentgraph_{name} ON {event.partition(' ON ')[2].split()[0]};"
        f"CREATE TRIGGER agentgraph_{name} AFTER {event} "
        f"EXECUTE FUNCTION {{{name}}}();"
        for name, event in _TRIGGERS.items()
    )
    script = "".join([lock, _TABLES, _FUNCTIONS, _FILL, *triggers])
    try:
        with connection.transaction():
            connection.execute(sql.SQL(cast(Any, script)).format(**given))
    except _UNABLE:
        return False
    return True


LOCK_SECONDS = 5.0
"""Seconds to wait until no transaction writes to the tables: those that begin later wait as well."""
_UNABLE = (
    psycopg.errors.InsufficientPrivilege,
    psycopg.errors.LockNotAvailable,
    psycopg.errors.ReadOnlySqlTransaction,
    psycopg.errors.FeatureNotSupported,
    psycopg.errors.UndefinedFunction,
    psycopg.errors.SyntaxError,
)
"""The errors of a server that cannot have the index: it is old or busy, or its user may not create it.
"""
_NAMES = {
    "threads": "agentgraph_threads",
    "metadata": "agentgraph_metadata",
    "checkpoints": "checkpoints",
    "writes": "checkpoint_writes",
}


def _named(schema: str, name: str) -> sql.Identifier:
    return sql.Identifier(schema, name)


def page_of(
    schema: str, query: ThreadQuery, after: Begun | None, limit: int
) -> tuple[sql.Composed, list[object]]:
    """Return the statement for the threads after one, newest first, and its values."""
    conditions, values = ["true"], list[object]()
    if after is not None:
        conditions.append("began <= %s AND (began < %s OR thread_id > %s)")
        values += [after[1], after[1], after[0]]
    if query.status is not None:
        conditions.append("(status IN ('', %s) OR thread_id = ANY (%s))")
        values += [query.status, [*query.running]]
    if query.due is not None:
        conditions.append("deadline <= %s")
        values.append(query.due)
    for key, value in query.metadata.items():
        conditions.append(
            "EXISTS (SELECT 1 FROM {metadata} AS given WHERE given.pair = {pair}(%s, %s) "
            "AND given.thread_id = listed.thread_id)"
        )
        values += [key, Jsonb(value)]
    text = (
        f"SELECT thread_id, began FROM {{threads}} AS listed WHERE {' AND '.join(conditions)} "
        "ORDER BY began DESC, thread_id LIMIT %s"
    )
    return _formatted(schema, text), [*values, limit]


def known_of(schema: str, ids: Sequence[str]) -> tuple[sql.Composed, list[object]]:
    """Return the statement for those of some threads that are stored, and its values."""
    text = "SELECT thread_id, began FROM {threads} WHERE thread_id = ANY (%s)"
    return _formatted(schema, text), [[*ids]]


def _formatted(schema: str, text: str) -> sql.Composed:
    names = ("threads", "metadata", "pair")
    parts = {name: _named(schema, f"agentgraph_{name}") for name in names}
    return sql.SQL(cast(Any, text)).format(**parts)
