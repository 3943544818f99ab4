"""Each place where a value crosses a saver, and the test that its type holds there.

A new field of what is saved, and a new call that saves something, need a row here.
"""

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from typing_extensions import is_typeddict

import agentgraph

TESTS = Path(__file__).parents[1]
OURS = "ours"
"""Numbers, names, addresses and texts that the package makes; nothing of a user's."""
LANES = "test_types_kept: test_declared_types_hold_in_a_lane_and_when_it_has_ended"
TURNS = "test_types_kept: test_declared_types_hold_over_a_question_a_turn_a_rewind_and_a_copy"
PLAIN = "test_types_kept: test_undeclared_containers_are_plain_at_once"
ITEMS = "test_types_kept: test_an_item_of_an_each_keeps_its_containers"
ANSWERS = "test_saved_types: test_an_answer_has_one_type"
DEFAULTS = "test_saved_types: test_a_default_has_one_type"
MESSAGES = "test_saved_types: test_messages_are_the_same_live_and_replayed"
TOOLS = "test_unsavable: test_what_a_tool_gives_is_refused_and_the_tool_does_not_run_again"
RUNS = "test_saved_types: test_a_reply_has_one_type_over_a_question"
MIDDLEWARE = "test_saved_types: test_the_state_of_middleware_has_one_type_over_a_question"
SENT = "test_saved_types: test_values_of_a_task_have_their_declared_types_over_a_question"
FLAT = "test_saved_types: test_what_a_flat_graph_sends_has_one_type_over_a_question"
SETTLED = "test_saved_types: test_a_value_that_settles_a_conflict_has_its_declared_type"
FAILURES = "test_unsavable: test_what_a_function_gives"

FIELDS: dict[str, dict[str, str]] = {
    LANES: {"LaneResult": "values", "CallResult": "values", "Write": "values", "TaskResult": "values"},
    TURNS: {"LaneState": "values", "Update": "values", "Position": "told"},
    ITEMS: {"Items": "keys values"},
    MESSAGES: {
        "LaneResult": "messages",
        "CallResult": "messages said",
        "TaskResult": "messages",
        "LaneState": "messages",
        "RequestData": "messages",
        "Update": "messages",
        "Edits": "beginning replaced added",
        "Beginning": "upto head",
    },
    DEFAULTS: {"Question": "deadline", "Substitute": "answer"},
    ANSWERS: {
        "Position": "answer answered ask",
        "LaneResult": "answered",
        "CallResult": "answered",
        "Progress": "answer",
        "SavedAnswer": "of data",
        "Question": "value response_schema",
        "QuestionRecord": "schemas",
        "GivenAnswer": "answer",
        "RequestData": "answers",
    },
    RUNS: {"CallResult": "data request text", "Position": "calls request", "UnendedCall": "request"},
    MIDDLEWARE: {
        "LaneState": "middleware untracked",
        "Update": "middleware untracked",
        "LaneResult": "middleware",
        "TaskResult": "state",
        "Progress": "passed",
    },
    SENT: {
        "Task": "messages values",
        "Position": "tasks",
        "Boundary": "task leaving",
        "ChatEnding": "task leaving",
        "Leaving": "update sent",
        "TaskResult": "acts",
    },
    FLAT: {"TaskResult": "writes", "Progress": "packets"},
    SETTLED: {"Position": "settled"},
    FAILURES: {
        "ErrorData": "classes args attributes said failures",
        "LaneResult": "failed",
        "UnendedCall": "failed",
        "UnsavedCall": "failed",
        "FormerAttempt": "failed came",
        "LaneState": "failure",
        "Update": "failure",
    },
    OURS: {
        "Position": "next cursor tree at began clock signal asked chat border spent outline text after "
        "cancels reason",
        "LaneResult": "agentgraph signal began finished position number needs text skipped stopped "
        "cancels reason stays accepted",
        "CallResult": "agentgraph number call agent began ended made",
        "TaskResult": "agentgraph position number began",
        "Items": "agentgraph",
        "UnendedCall": "agentgraph call agent saved again given_up position",
        "Progress": "model_calls tool_calls misfits ending steps visits ended",
        "Boundary": "signal target granted given failed cancels reason",
        "ChatEnding": "signal target granted keeps cancels reason",
        "SignalDetails": "cancels reason",
        "PrunedTurn": "is_done reply",
        "PrunedMark": "upto began",
        "Task": "is_added to is_back since",
        "Leaving": "goto",
        "FormerAttempt": "task number attempt address namespace",
        "Write": "by",
        "LaneState": "position",
        "Update": "position",
        "Loss": "spent begun",
        "Discarded": "cursor ids is_final",
        "GivenAnswer": "at",
        "RequestData": "kind reason",
        "TurnData": "turn message digest",
        "TurnOutcome": "answers",
        "SavedQuestions": "task ids",
        "Substitute": "kind id deadline run",
        "QuestionRecord": "questions_of",
        "UnsavedCall": "number",
        "StateCopy": "namespace of id parent parents",
        "Rewound": "ids again since at states",
    },
}
NOT_SAVED = {"Chosen", "_State", "RunArguments", "_Checkpoint", "_Metadata", "_Parts"}
"""Forms of calls, and of what savers return."""
SAVING: dict[str, str] = {
    "graph.chat.call_attempts.Attempts._save": FAILURES,
    "graph.chat.tool_call.RunningCall.save_failure": TOOLS,
    "graph.foreign.graph_node": MESSAGES,
    "graph.nodes.parking._save": ANSWERS,
    "graph.nodes.run_calls": RUNS,
    "graph.nodes.saved_calls": RUNS,
    "graph.nodes.spending": OURS,
    "graph.result_saver": LANES,
    "journal.lines": PLAIN,
    "journal.requests": MESSAGES,
    "journal.turn_records": OURS,
    "threads.live.run_answers": ANSWERS,
    "threads.rewinds": TURNS,
    "threads.runs": ANSWERS,
    "journal.savers": OURS,
    "journal.thread_saver": TURNS,
    "graph.guarded_saver": OURS,
}
"""The functions, or their modules, that save something by themselves; LangGraph saves all else."""
_SAVES = {"put_writes", "aput_writes", "put_write", "save_result", "asave_result", "put_copy"}


def fields_saved() -> Iterator[str]:
    """Yield each field of what is saved, as "Class.field"."""
    for found in pkgutil.walk_packages(agentgraph.__path__, "agentgraph."):
        if found.name.startswith(("agentgraph.graph", "agentgraph.threads", "agentgraph.journal")):
            for name, kind in vars(importlib.import_module(found.name)).items():
                is_own = is_typeddict(kind) and kind.__module__ == found.name
                if is_own and name not in NOT_SAVED:
                    yield from (f"{name}.{each}" for each in kind.__annotations__)


def test_each_field_that_is_saved_has_a_row() -> None:
    rows = [
        f"{kind}.{name}"
        for kinds in FIELDS.values()
        for kind, names in kinds.items()
        for name in names.split()
    ]
    assert sorted(rows) == sorted(set(fields_saved()))


def saving_functions() -> Iterator[str]:
    """Yield the functions that call a method by which something is saved."""
    folder = Path(agentgraph.__path__[0])
    for path in folder.rglob("*.py"):
        module = ".".join(path.relative_to(folder).with_suffix("").parts)
        yield from _saving(module, ast.parse(path.read_text()))


def _saving(name: str, tree: ast.AST) -> Iterator[str]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield from _saving(f"{name}.{node.name}", node)
        elif any(_saves(each) for each in ast.walk(node)):
            yield name


def _saves(node: ast.AST) -> bool:
    named = getattr(node, "attr", None) if isinstance(node, ast.Attribute) else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        named = node.func.id
    return named in _SAVES


def test_each_function_that_saves_has_a_row() -> None:
    found = {
        name: {row for row in SAVING if f"{name}.".startswith(f"{row}.")} for name in saving_functions()
    }
    assert [name for name, rows in found.items() if not rows] == []
    assert set().union(*found.values()) == {*SAVING}


@pytest.mark.parametrize("row", sorted({*FIELDS, *SAVING.values()} - {OURS}))
def test_the_test_of_a_row_is_there(row: str) -> None:
    module, name = row.split(": ")
    assert f"def {name}(" in (TESTS / "graph" / f"{module}.py").read_text()
