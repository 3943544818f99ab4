"""Where threads are kept: SQLite files, PostgreSQL databases, and their locks over processes."""
