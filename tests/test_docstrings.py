"""Docstrings tell the truth: each example that shows a result gives it."""

import doctest
import importlib
import inspect
import pkgutil

import pytest

import agentgraph

MODULES = [
    info.name
    for info in pkgutil.walk_packages(agentgraph.__path__, "agentgraph.")
    if not info.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_give_what_they_show(name):
    module = importlib.import_module(name)
    names = {**vars(agentgraph), **vars(module)}
    assert doctest.testmod(module, extraglobs=names).failed == 0


def test_everything_public_has_a_docstring():
    public = [getattr(agentgraph, name) for name in agentgraph.__all__]
    documented = [thing for thing in public if inspect.isclass(thing) or inspect.isroutine(thing)]
    assert len(documented) > 30
    assert [thing for thing in documented if not inspect.getdoc(thing)] == []
