"""Prints the log of two runs as lines of JSON."""

import json
import logging
import sys
from contextlib import suppress

import agentgraph as ag

FIELDS = ("thread_id", "tree", "address", "status", "error")


class JsonLines(logging.Formatter):
    """Formats a record as a line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the level and the fields that the record has."""
        fields = {name: vars(record)[name] for name in FIELDS if name in vars(record)}
        return json.dumps({"level": record.levelname} | fields)


def prints(ctx: ag.Context) -> str:
    """Fail."""
    raise OSError("the printer is jammed")


handler = logging.StreamHandler(sys.stdout)
handler.setFormatter(JsonLines())
logging.basicConfig(level=logging.WARNING, handlers=[handler])
logging.getLogger("agentgraph").setLevel(logging.INFO)

report = ag.sequential("report", [ag.human("boss", "Print it?"), ag.function_agent("printer", prints)])
runner = ag.Runner(report)
runner.invoke("Go.", thread_id="monday")
with suppress(OSError):
    runner.invoke(thread_id="monday", answers="yes")
