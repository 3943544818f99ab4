"""Converts any value to JSON data for a front end; the data is never converted back.

`as_json` of the events tags types unknown to JSON with our own key. Front ends do not know that key, so
here a tuple becomes a list, a date its text, and a number that is not finite null.
"""

from collections.abc import Mapping
from typing import Any

from agentgraph.events.json_forms import as_json, from_json


def plain(value: object) -> Any:
    """Convert a value to JSON data; it never fails.

    >>> plain({"sizes": (1, 2), 3: float("nan")})
    {'sizes': [1, 2], '3': None}
    """
    return _without_tags(as_json(value))


def plain_text(value: object) -> str:
    """Return a text that can be encoded as UTF-8."""
    return str(value).encode("utf-8", "replace").decode("utf-8")


def shown_values(values: Mapping[str, object]) -> dict[str, object]:
    """Return the values of a run for a front end, without names that start with "_"."""
    return {name: plain(value) for name, value in values.items() if not name.startswith("_")}


def _without_tags(form: Any) -> object:
    match form:
        case {"$agentgraph": [str(tag), content]} if len(form) == 1:
            return _of_tag(tag, content, form)
        case dict():
            return {key: _without_tags(each) for key, each in form.items()}
        case list():
            return [_without_tags(each) for each in form]
    return form


def _of_tag(tag: str, content: Any, form: object) -> object:
    match tag:
        case "items":
            pairs = ((_without_tags(key), _without_tags(each)) for key, each in content)
            return {plain_text(key): each for key, each in pairs}
        case "dict":
            return {key: _without_tags(each) for key, each in content.items()}
        case "message":
            return _without_tags(content["data"])
        case "str":
            return plain_text(from_json(form))
        case "int":
            return str(from_json(form))
        case "float":
            return None
    return _without_tags(content)
