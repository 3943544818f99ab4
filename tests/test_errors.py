"""Errors: one root, data that comes along, also through pickle."""

import pickle

import pytest

import agentgraph as ag

ERRORS = [
    ag.InvalidAgentError(["a: one", "b: two"]),
    ag.InvalidSkillError(["a.yaml:1: one", "a.yaml:2: two"]),
    ag.CheckFailedError("report/writer: too short"),
    ag.StepFailedError(
        "wf", "c", "ValueError('no')", undone=["b", "a"], not_undone={"d": "KeyError('x')"}
    ),
    ag.MissingValueError("writer", "topic", ["tone"]),
    ag.NoneAcceptedError("p", {"a": ag.Reply("no", data=1)}, {"b": "ValueError('no')"}),
    ag.RemoteRunError({"error": "ValueError", "message": "no"}),
    ag.ThreadBusyError("busy", "t"),
    ag.TreeChangedError("changed", "t", "- a"),
    ag.InvalidOutputError("no"),
    ag.SaverError("no", thread_id="t", path="x.db"),
    ag.UnfitSaverError("no", saver="a.B", package=("p", "1"), missing=["answers"], works=["copy"]),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_goes_through_pickle_with_its_data(error):
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


@pytest.mark.parametrize("name", [name for name in ag.__all__ if name.endswith("Error")])
def test_every_error_has_one_root(name):
    assert issubclass(getattr(ag, name), ag.AgentGraphError)


def test_several_faults_are_shown_one_a_line():
    assert str(ERRORS[0]) == "2 faults:\n- a: one\n- b: two"
    assert str(ag.InvalidAgentError(["a: one"])) == "a: one"
