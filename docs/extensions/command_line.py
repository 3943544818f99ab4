"""The directive `commands`: a section for each command, from what `--help` shows."""

from typing import Any

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from agentgraph.cli.commands import commands


class Commands(SphinxDirective):
    """Describes all commands of the command line."""

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(
            "\n\n".join(_section(name, command) for name, command in sorted(commands.commands.items())),
            allow_section_headings=True,
        )


def _section(name: str, command: click.Command) -> str:
    context = click.Context(command, info_name=f"agentgraph {name}")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    parts = [f"## `{name}`", (command.help or "").split("\f")[0], f"```sh\n{usage}\n```"]
    records = [each.get_help_record(context) for each in command.params]
    options = [f"`{flags}`\n: {_escaped(text)}" for flags, text in filter(None, records) if text]
    return "\n\n".join([*parts, *options])


def _escaped(text: str) -> str:
    return text.replace("*", r"\*").replace("[", r"\[")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("commands", Commands)
    return {"parallel_read_safe": True}
