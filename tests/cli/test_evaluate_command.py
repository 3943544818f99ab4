"""`agentgraph cases` and `agentgraph evaluate`: from threads to a table that is compared."""

import json

import pytest
from cli_agents import FAILED, REFUSED, STOPPED
from helpers.commands import Commands

pytestmark = pytest.mark.usefixtures("agents")

CHECKS = """
def printed(result, case):
    return result.text == case.expected

checks = {"brief": lambda result: len(result.text) < 5, "length": lambda result: len(result.text)}
"""
EVALUATE = ("evaluate", "agents.py:asking", "cases.jsonl", "--checks", "rules:printed,checks")


def test_threads_become_cases_and_two_versions_are_compared(command: Commands) -> None:
    (command.folder / "rules.py").write_text(CHECKS)
    for thread, answer in (("a/1", "yes"), ("a:1", "no")):
        command("run", "agents.py:asking", "bees", "--thread", thread, "--no-input")
        command("resume", "agents.py:asking", thread, "--answer", answer)
    command("run", "agents.py:first", "bees", "--thread", "other")
    written = command("cases", "agents.py:asking")
    assert written.err == "Skipped: thread other was run by another tree.\n"
    assert [*map(json.loads, written.lines)] == [
        {"id": case, "input": "bees", "answers": {"asking/boss": word}, "expected": word}
        for case, word in (("a-1", "no"), ("a-1-2", "yes"))
    ]
    assert command("cases", "agents.py:asking", "a/1").lines == [
        written.lines[1].replace("a-1-2", "a-1")
    ]
    (command.folder / "cases.jsonl").write_text(written.out)
    for _ in range(2):
        ran = command(*EVALUATE, "--name", "v1", "--save", "v1.json")
        assert (ran.code, ran.err) == (0, "")
        assert [line.split() for line in ran.lines[:4]] == [
            ["v1"],
            ["case", "status", "printed", "brief", "length", "tokens", "seconds", "failure"],
            ["a-1", "done", "✓", "✓", "2", "0", *ran.lines[2].split()[6:]],
            ["a-1-2", "done", "✓", "✓", "3", "0", *ran.lines[3].split()[6:]],
        ]
    assert (command.folder / "ledger").read_text().count("printer") == 4
    (command.folder / "cases.jsonl").write_text(
        written.out.replace('"expected": "no"', '"expected": "No"')
    )
    changed = command(*EVALUATE, "--name", "v2", "--compare", "v1.json", "--json")
    assert changed.code == FAILED
    assert [each["status"] for each in json.loads(changed.out)["trials"]] == ["done", "done"]
    lines = [line.split() for line in changed.err.splitlines()]
    assert [line for line in lines if "seconds" not in line] == [
        [],
        ["case", "what", "v1", "v2"],
        ["all", "passed", "2", "of", "2", "passed", "1", "of", "2", "passed"],
        ["all", "printed", "2/2", "1/2"],
        ["all", "brief", "2/2", "2/2"],
        ["all", "length", "2.5", "2.5"],
        ["all", "tokens", "0", "0"],
        ["a-1", "printed", "✓", "✗"],
    ]


SLOW = """
import agentgraph as ag


async def slow(ctx):
    return "Done."

tree = ag.function_agent("slow", slow, timeout=60)
"""
JUDGES = """
async def judged(result):
    return len(result.text) / 8

def leaves(result):
    raise SystemExit(0)

def interrupts(result):
    raise KeyboardInterrupt
"""


def test_trees_and_checks_that_are_async_are_evaluated_and_checks_are_next_to_a_skill_file(
    command: Commands,
) -> None:
    skills = command.folder / "skills"
    skills.mkdir()
    for name, text in (
        ("slow.py", SLOW),
        ("judges.py", JUDGES),
        ("boss.yaml", "{kind: human, name: boss, prompt: Fine}"),
    ):
        (skills / name).write_text(text)

    def ran_by(target: str) -> tuple[str, ...]:
        return ("evaluate", f"skills/{target}", "cases.jsonl", "--name", target)

    case = {"id": "a", "input": "Go.", "answers": {"boss": "Done"}}
    (command.folder / "cases.jsonl").write_text(json.dumps(case))
    for target, score in (("slow.py:tree", 0.625), ("boss.yaml", 0.5)):
        ran = command(*ran_by(target), "--checks", "judges:judged", "--json")
        assert (ran.code, ran.err) == (0, "")
        assert json.loads(ran.out)["trials"][0]["verdicts"] == [
            {"name": "judged", "value": score, "reason": ""}
        ]
    left = command(*ran_by("boss.yaml"), "--checks", "judges:leaves")
    assert left.err == ("Error: an agent or a check raised SystemExit(0); raise another exception\n")
    assert left.code == REFUSED
    interrupted = command(*ran_by("slow.py:tree"), "--checks", "judges:interrupts")
    assert interrupted.code == STOPPED  # also where an event loop raises it, in a thread


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (
            ["--checks", "rules"],
            "--checks 'rules' names no checks; write MODULE:NAME, such as checks:polite",
        ),
        (["--checks", "rules:kind"], "--checks rules:kind: rules has no 'kind'; name its checks"),
        (
            ["--checks", "no_rules:kind"],
            "--checks no_rules:kind: no_rules cannot be imported (No module named 'no_rules'); name a "
            "module next to TARGET, without .py",
        ),
        (
            ["--checks", "leaving:kind"],
            "--checks leaving:kind: leaving cannot be imported (SystemExit(0)); name a module next to "
            "TARGET, without .py",
        ),
        (
            ["--compare", "v0.json"],
            "the report v0.json cannot be read (No such file or directory); name a file of "
            "report.save()",
        ),
        (
            [],
            "the cases cases.jsonl cannot be read (No such file or directory); name a file of JSON "
            "lines",
        ),
    ],
)
def test_what_cannot_be_evaluated_is_one_line(
    arguments: list[str], text: str, command: Commands
) -> None:
    (command.folder / "rules.py").write_text(CHECKS)
    (command.folder / "leaving.py").write_text("raise SystemExit(0)")
    refused = command(*EVALUATE[:3], "--name", "v1", *arguments)
    assert (refused.code, refused.err) == (REFUSED, f"Error: {text}\n")
    assert not (command.folder / "agentgraph.db").exists()
