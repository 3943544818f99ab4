"""A search, and scripts instead of the models of the deep agent."""

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import call, calls
from examples.models import Script

CODE = """
import csv
with open("questions.csv") as table, open("first_column.csv", "w") as column:
    for row in csv.reader(table):
        print(row[0], file=column)
"""
STEPS = ["Take the first column out", "Look at the result"]


def search(query: str) -> str:
    """Search the web."""
    return "RFC 4180 says that a file of comma-separated values may begin with a header line."


def _todos(*done: str) -> AIMessage:
    todos = [
        {"content": step, "status": "completed" if step in done else "in_progress"} for step in STEPS
    ]
    return calls(call("write_todos", todos=todos))


def _plan(messages: list[BaseMessage]) -> str | AIMessage:
    replies: list[str | AIMessage] = [
        _todos(),
        calls(
            call("coder", request="Write the first column of questions.csv to first_column.csv."),
            call("web_searcher", request="May a CSV file have a header?"),
        ),
        _todos(STEPS[0]),
        calls(call("read_file", name="first_column.csv")),
        _todos(*STEPS),
        "The first column is in first_column.csv; its header is kept, as RFC 4180 allows.",
    ]
    return replies[sum(each.type == "ai" for each in messages)]


def _code(messages: list[BaseMessage]) -> str | AIMessage:
    replies: list[str | AIMessage] = [
        calls(call("read_file", name="questions.csv", lines=2)),
        calls(call("run_python", code=CODE)),
        "first_column.csv holds the questions.",
    ]
    return replies[sum(each.type == "ai" for each in messages)]


def _search(messages: list[BaseMessage]) -> str | AIMessage:
    is_searched = messages[-1].type == "tool"
    return messages[-1].text if is_searched else calls(call("search", query="CSV header"))


SCRIPTS: dict[str, Script] = {"planner": _plan, "coder": _code, "web_searcher": _search}
