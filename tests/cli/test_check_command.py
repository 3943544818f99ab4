"""`agentgraph check` prints findings as text, JSON or SARIF; `--strict` fails on them."""

import json

import pytest
from helpers.commands import Commands

from agentgraph import __version__

TREE = """
import agentgraph as ag
writer = ag.chat_agent("writer", "openai:gpt-5", output_key="draft")
critic = ag.chat_agent("critic", "openai:gpt-5", instruction="Criticize {drfat}.")
report = ag.sequential("report", [writer, critic])
"""
TEXT = (
    "report/critic: nothing has written the value 'drfat', which it reads; did you mean 'draft'? Else "
    "name it in inputs= (way: report/writer -> report/critic)"
)


@pytest.fixture
def check(command: Commands):
    (command.folder / "tree.py").write_text(TREE)
    return lambda *options, name="report": command("check", f"tree.py:{name}", *options)


def test_check_warns_and_fails_only_if_it_is_strict(check) -> None:
    for options, code in (((), 0), (("--strict",), 1)):
        ended = check(*options)
        assert (ended.code, ended.out) == (code, "report: no faults\n")
        assert ended.err == f"warning: {TEXT}\n"
    assert check("--strict", name="writer").code == 0
    known = check("--strict", "--input", "drfat", "--input", "draft")
    assert (known.code, known.out, known.err) == (0, "report: no faults\n", "")


def test_findings_as_json(check) -> None:
    ended = check("--format", "json", "--strict")
    assert (ended.code, ended.err) == (1, "")
    assert json.loads(ended.out) == [
        {
            "kind": "unwritten_value",
            "address": "report/critic",
            "name": "drfat",
            "way": ["report/writer", "report/critic"],
            "advice": "did you mean 'draft'? Else name it in inputs=",
            "text": TEXT,
        }
    ]
    assert check("--json").out == ended.out
    none = check("--json", name="writer")
    assert (none.code, json.loads(none.out)) == (0, [])


def test_findings_as_sarif(check) -> None:
    log = json.loads(check("--format", "sarif").out)
    [run] = log["runs"]
    [result] = run["results"]
    driver = run["tool"]["driver"]
    assert (log["version"], driver["name"], driver["version"]) == ("2.1.0", "agentgraph", __version__)
    assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"] == "unwritten_value"
    assert (result["level"], result["message"]) == ("warning", {"text": TEXT})
    [location] = result["locations"]
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "tree.py"
    assert location["logicalLocations"][0]["fullyQualifiedName"] == "report/critic"
    [flow] = result["codeFlows"][0]["threadFlows"]
    steps = [each["location"]["message"]["text"] for each in flow["locations"]]
    assert steps == ["report/writer", "report/critic"]
    physical = [each["location"]["physicalLocation"] for each in flow["locations"]]
    lines = [each["region"]["startLine"] for each in (location["physicalLocation"], *physical)]
    assert lines == [4, 3, 4]
    assert check("--sarif").out == check("--format", "sarif").out


def test_the_file_of_a_sarif_log_is_a_uri(command: Commands) -> None:
    (command.folder / "my tree.py").write_text(TREE)
    log = json.loads(command("check", "my tree.py:report", "--sarif").out)
    place = log["runs"][0]["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "my%20tree.py"
