"""Why a call of the page failed, as JSON data of one form: over HTTP and in a cell of a notebook."""

import logging
from typing import Literal, NamedTuple

from agentgraph.errors import AgentGraphError
from agentgraph.events.json_forms import JsonObject
from agentgraph.safe_repr import reason

log = logging.getLogger("agentgraph")


class CallFailure(NamedTuple):
    """A failure of a call, for the page.

    Attributes:
        data: "error", the name of the error; "detail", its text; "questions" of an answer that does not
            fit: the faults by the ids of their questions.
        status: The HTTP status of the error.
    """

    data: JsonObject
    status: int


def failure_of(name: str, error: Exception, host: Literal["server", "kernel"]) -> CallFailure:
    """Return the failure of a call as data, and log it.

    Args:
        name: The name of the call.
        error: What it raised.
        host: What runs the call, and has the log.
    """
    if not isinstance(error, AgentGraphError):
        log.error("the call %s failed", name, exc_info=error)
        detail = f"{type(error).__name__}: {reason(error)}; the log of the {host} says where"
        return CallFailure({"error": f"{host.capitalize()}Error", "detail": detail}, 500)
    log.info("the call %s is refused: %s", name, reason(error))
    data: JsonObject = {"error": type(error).__name__, "detail": str(error)}
    if questions := getattr(error, "questions", None):
        data["questions"] = questions
    return CallFailure(data, error.http_status)
