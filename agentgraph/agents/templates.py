"""Templates: `{name}` in an instruction, a prompt or an input becomes a value of the run."""

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from langchain_core.messages import SystemMessage

from agentgraph.errors import InvalidOutputError, MissingValueError
from agentgraph.safe_repr import shown

_TOKEN = re.compile(r"(?P<open>\{\{)|(?P<close>\}\})|\{(?P<name>[^\W\d]\w*)(?P<optional>\?)?\}")

_PART = re.compile(r"\{\{|\}\}|\{(?P<name>[^\W\d]\w*)(?:\.[^\W\d]\w*|\[[^\]{}]*\])+\}")

_SCOPED = re.compile(r"\{\{|\}\}|\{(?:user|app|temp):(?P<name>[^\W\d]\w*)\??\}")

_REFERENCE = re.compile(
    r"\$\{(results\.(?P<result>[\w-]+)(?P<fields>(\.\w+)*)|(values\.)?(?P<value>[^\W\d]\w*))\}"
)

_BARE_REFERENCE = re.compile(
    r"\{\{|\$\{|[\w\]}]\{|(?P<bare>\{\s*(?:results\.[\w.-]+|values\.[^\W\d]\w*)\s*\})"
)

_LIKE_A_REFERENCE = re.compile(r"\$\{[\w\s.-]+\}")


class StepResult(NamedTuple):
    """The result of a step, for the inputs of later ones.

    Attributes:
        text: The text of its last message; empty if it was skipped.
        data: The value of its output key.
        is_empty: Whether it was skipped; if so, its fields are empty, too.
    """

    text: str
    data: object = None
    is_empty: bool = False


def fill(template: str, values: Mapping[str, object], agent_name: str) -> str:
    """Fill the placeholders of `template` in one pass.

    `{name}` becomes the value, `{name?}` nothing if the value is missing; `{{` and its matching `}}`
    are braces. Any other text in braces is unchanged, nested JSON included.

    >>> fill('About {topic}, as {"a": {"b": 1}}, or {{so}}', {"topic": "bees"}, "writer")
    'About bees, as {"a": {"b": 1}}, or {so}'

    Raises:
        MissingValueError: A placeholder names a missing value.
    """
    opened = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal opened
        if match["open"]:
            opened += 1
            return "{"
        if match["close"]:
            literal = opened == 0
            opened -= not literal
            return "}}" if literal else "}"
        name = match["name"]
        if name in values:
            return _text(values[name])
        if match["optional"]:
            return ""
        raise MissingValueError(agent_name, name, list(values))

    return _TOKEN.sub(replace, template)


def is_filled(template: str) -> bool:
    """Return whether a template has placeholders, so that its text depends on the values."""
    return any(match["name"] for match in _TOKEN.finditer(template))


def names_in(template: str) -> list[str]:
    """List the names of the values in a template, or in the input of a step.

    >>> names_in("About {topic}, in {tone?}, not {{so}}; ${notes}, ${results.find}")
    ['topic', 'tone', 'notes', 'notes']
    """
    names = [match["name"] for match in _TOKEN.finditer(template) if match["name"]]
    return [*names, *(match["value"] for match in _REFERENCE.finditer(template) if match["value"])]


def optional_in(template: str) -> list[str]:
    """List the names of the values without which a template is filled, too.

    >>> optional_in("About {topic}, in {tone?}")
    ['tone']
    """
    matches = [match for match in _TOKEN.finditer(template) if match["name"]]
    needed = {match["name"] for match in matches if not match["optional"]}
    return [match["name"] for match in matches if match["name"] not in needed]


def parts_named_in(template: str) -> list[tuple[str, str]]:
    """List the values of which a template names a part, each with the text, which stays unchanged.

    >>> parts_named_in('About {topic.name} and {topic[0]}, not {{so.it}}, {"a": {so.it: 1}} or {topic}')
    [('topic', '{topic.name}'), ('topic', '{topic[0]}')]
    """
    return [(match["name"], match[0]) for match in _PART.finditer(template) if match["name"]]


def scoped_in(template: str) -> list[tuple[str, str]]:
    """Return the names that have a scope of google-adk in a template, each with its text.

    >>> scoped_in('For {user:name}, not {{user:name}} or {"a": 1}')
    [('name', '{user:name}')]
    """
    return [(match["name"], match[0]) for match in _SCOPED.finditer(template) if match["name"]]


def fill_input(
    template: str, values: Mapping[str, object], results: Mapping[str, StepResult], agent_name: str
) -> str:
    """Fill `${results.x}`, `${topic}` and `{topic}` in the input of a step.

    >>> results = {"write": StepResult("Buzz", {"by": {"name": "Ada"}})}
    >>> template = "Check ${results.write} of ${results.write.by.name} for {topic}."
    >>> fill_input(template, {"topic": "bees"}, results, "check")
    'Check Buzz of Ada for bees.'

    Raises:
        MissingValueError: A placeholder names a missing value.
        InvalidOutputError: A field is missing in the output of a step.
    """
    parts: list[str] = []
    end = 0
    for match in _REFERENCE.finditer(template):
        parts.append(fill(template[end : match.start()], values, agent_name))
        result, value = match["result"], match["value"]
        if result is None:
            parts.append(fill(f"{{{value}}}", values, agent_name))
        else:
            parts.append(_part_of(result, match["fields"], results[result], agent_name))
        end = match.end()
    return "".join([*parts, fill(template[end:], values, agent_name)])


def _part_of(step: str, fields: str, result: StepResult, agent_name: str) -> str:
    """Return the text of a result, or a field of its data: `.by.name`.

    Raises:
        InvalidOutputError: The field is missing.
    """
    if not fields or result.is_empty:
        return result.text
    data = result.data
    for field in fields.removeprefix(".").split("."):
        if not isinstance(data, Mapping) or field not in data:
            names = ", ".join(map(str, data)) if isinstance(data, Mapping) else ""
            there = f"available: {names or 'none'}" if isinstance(data, Mapping) else shown(data)
            raise InvalidOutputError(
                f"{agent_name}: its input names ${{results.{step}{fields}}}, but the output of "
                f"{step!r} has no {field!r} ({there}); name another field, or let {step!r} return it"
            )
        data = data[field]
    return _text(data)


def results_in(template: str) -> list[tuple[str, str]]:
    """List the steps to whose results a step's input refers, each with its fields.

    >>> results_in("${results.find} and ${results.find.title}, but not ${topic}")
    [('find', ''), ('find', '.title')]
    """
    matches = _REFERENCE.finditer(template)
    return [(match["result"], match["fields"]) for match in matches if match["result"]]


def unreadable_in(template: str) -> list[str]:
    """List the texts in a step's input that look like references but are invalid.

    >>> unreadable_in("Use ${result.find} for ${topic}.")
    ['${result.find}']
    """
    texts = [match[0] for match in _LIKE_A_REFERENCE.finditer(template)]
    return [each for each in texts if not _REFERENCE.fullmatch(each)]


def bare_in(template: str) -> list[str]:
    """List the references in a step's input without a dollar sign.

    The argument of a LaTeX command and text in double braces are not references.

    >>> bare_in("Use {results.find}, not {{results.find}}, ref{results.find} or {find: {}}.")
    ['{results.find}']
    """
    texts = (match["bare"] for match in _BARE_REFERENCE.finditer(template))
    return [bare for bare in texts if bare]


def with_text(system: SystemMessage, text: str) -> SystemMessage:
    r"""Append a text to a system message, as a further block if its content is blocks.

    >>> with_text(SystemMessage("Be kind."), "Be short.").content
    'Be kind.\n\nBe short.'
    """
    content = system.content
    if isinstance(content, str):
        return system.model_copy(update={"content": f"{content}\n\n{text}" if content else text})
    return system.model_copy(update={"content": [*content, {"type": "text", "text": text}]})


def _text(value: object) -> str:
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
