"""Skill files: trees of agents as YAML or JSON, read without evaluating anything.

A file is one agent, a mapping with its `kind` and the parameters of that builder:

```yaml
# yaml-language-server: $schema=skill.schema.json
kind: sequential
name: report
model: writer                       # of every agent inside that has none
sub_agents:
  - kind: chat
    name: write
    instruction: "Write about {topic}."
    tools: [search, {agent: critic}]    # a tool, and an agent as a tool
    output_key: draft
  - agent: publish                  # an agent made in Python
```

Names stand for what `load` is given: tools, models, agents; `module:name` is imported where it is
allowed, and `openai:gpt-5` is a model by the name that LangChain has for it, made when it is first
asked. An agent made in Python is written `agent: NAME` wherever an agent may stand, a plain name
is that of a tool or a model. The nearest `model` around an agent counts for it. A loop ends by
`until: {value: approved, is: true}`. Words are read as YAML 1.2 and JSON have them: `no` is a text.
Anchors, aliases, tags and keys that stand twice are faults.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agentgraph.agents.agents import Agent
from agentgraph.agents.composites import as_tuple
from agentgraph.errors import InvalidSkillError
from agentgraph.skills.building import built
from agentgraph.skills.checking import checked
from agentgraph.skills.reading import Document, Fault, read
from agentgraph.skills.references import References
from agentgraph.skills.schema import ValueIs, json_schema

__all__ = ["ValueIs", "json_schema", "load"]


def load(
    path: str | os.PathLike[str],
    *,
    tools: Mapping[str, Any] | None = None,
    models: Mapping[str, Any] | None = None,
    agents: Mapping[str, Agent] | None = None,
    allow: Iterable[str] = (),
) -> Agent:
    """Return the agent that a skill file says: the same value as the builders make.

    ```
    report = load("report.yaml", models={"writer": ChatOpenAI(...)}, tools={"search": search})
    print(report)
    report (sequential)
    ├─ write (chat, writes draft)
    └─ boss (human)
    ```

    Args:
        path: The file, YAML or JSON in UTF-8.
        tools: The tools that the file may name, by the names it has for them: LangChain tools and
            functions.
        models: The models that it may name, besides those that LangChain makes by name.
        agents: The agents that it may name.
        allow: References that it may import besides, as `module:name`, or `module:*` for all that a
            module offers: its `__all__`, or without one its own public names. Importing a module
            runs it; what it has is not called.

    Raises:
        InvalidSkillError: The file cannot be read, or has faults; the error names all of them with
            their lines. Those of the tree are told once each part of the file has its right form.
        AgentGraphError: An entry of `allow` is no reference.
    """
    names = References(
        tools=tools or {}, models=models or {}, agents=agents or {}, allow=as_tuple(allow)
    )
    agent, faults = _made(read(_text(Path(path))), names)
    if agent is None or faults:
        in_order = sorted(faults, key=lambda fault: fault.line)
        raise InvalidSkillError([f"{Path(path)}:{fault.line}: {fault.text}" for fault in in_order])
    return agent


def _made(document: Document, names: References) -> tuple[Agent | None, tuple[Fault, ...]]:
    """Return the agent, if one can be made, and all faults."""
    part, faults = checked(document, names)
    if faults and not document.faults:
        part, _ = checked(document, replace(names, finds_all=True))
    if part is None or document.faults:
        return None, faults
    agent, of_tree = built(part, document)
    return agent, (*faults, *of_tree)


def _text(file: Path) -> str:
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        why = f"this is no UTF-8 text ({error}); save it as UTF-8"
        raise InvalidSkillError([f"{file}: {why}"]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        why = f"the file cannot be read ({reason}); correct the path"
        raise InvalidSkillError([f"{file}: {why}"]) from None
    is_json = file.suffix.lower() == ".json"
    return text.replace("\t", " ") if is_json else text  # YAML takes no tabs between its words
