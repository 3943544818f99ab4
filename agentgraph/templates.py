"""Templates: `{name}` in an instruction or a prompt is filled from the values of the run."""

import json
import re
from collections.abc import Mapping
from typing import Any

from agentgraph.errors import MissingValueError

_TOKEN = re.compile(r"(?P<open>\{\{)|(?P<close>\}\})|\{(?P<name>[^\W\d]\w*)(?P<optional>\?)?\}")


def fill(template: str, values: Mapping[str, Any], agent_name: str) -> str:
    """Return `template` with its placeholders filled, in one pass.

    `{name}` becomes the value, `{name?}` nothing where there is none; `{{` and the `}}` that
    belongs to it are braces. Any other text in braces stays as it is, nested JSON included.

    >>> fill('About {topic}, as {"a": {"b": 1}}, or {{so}}', {"topic": "bees"}, "writer")
    'About bees, as {"a": {"b": 1}}, or {so}'

    Raises:
        MissingValueError: A placeholder names a value that is not there.
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


def _text(value: Any) -> str:
    if isinstance(value, dict | list | tuple):
        return json.dumps(value, ensure_ascii=False, default=str)
    return str(value)
