"""Failures of the page's calls as JSON data, in one form for HTTP and for notebook cells."""

import logging
from typing import Literal, NamedTuple

from agentgraph.errors import AgentGraphError
from agentgraph.events.json_forms import JsonObject
from agentgraph.safe_repr import reason

log = logging.getLogger("agentgraph.window")


class CallFailure(NamedTuple):
    """A failure of a call, for the page.

    Attributes:
        data: "error", the name of the error; "detail", its text; "questions", if an answer does not
            fit: the faults by question id.
        status: The HTTP status of the error.
    """

    data: JsonObject
    status: int


def failure_of(name: str, error: Exception, host: Literal["server", "kernel"]) -> CallFailure:
    """Return the failure of a call as data, and log it.

    Args:
        name: The name of the call.
        error: The error that the call raised.
        host: The process that runs the call and has the log.
    """
    if not isinstance(error, AgentGraphError):
        log.error("the call %s failed", name, exc_info=error)
        detail = f"{type(error).__name__}: {reason(error)}; the log of the {host} has the traceback"
        return CallFailure({"error": f"{host.capitalize()}Error", "detail": detail}, 500)
    log.info("the call %s is rejected: %s", name, reason(error))
    data: JsonObject = {"error": type(error).__name__, "detail": str(error)}
    if questions := getattr(error, "questions", None):
        data["questions"] = questions
    return CallFailure(data, error.http_status)
