"""Options of commands that are JSON."""

import json

import click

from agentgraph.events.json_forms import JsonObject
from agentgraph.safe_repr import cut

_SHOWN = 200
"""How many characters of a wrong option are repeated."""


def json_object(text: str) -> JsonObject:
    """Return the JSON object that an option is.

    Raises:
        click.BadParameter: It is none.
    """
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"{cut(text, _SHOWN)!r} is not JSON ({error}).") from None
    if not isinstance(values, dict):
        start = cut(text, _SHOWN)
        raise click.BadParameter(f'{start!r} is not a JSON object such as {{"topic": "bees"}}.')
    return values
