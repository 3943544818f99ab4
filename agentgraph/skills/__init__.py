"""Skill files: trees of agents as YAML or JSON; a file cannot execute code.

A file contains one agent: a mapping with its `kind` and the parameters of that builder:

```yaml
# yaml-language-server: $schema=skill.schema.json
kind: sequential
name: report
model: writer                       # for every agent inside without its own
sub_agents:
  - kind: chat
    name: write
    instruction: "Write about {topic}."
    tools: [search, {agent: critic}]    # a tool, and an agent as a tool
    output_key: draft
  - agent: publish                  # an agent made in Python
```

Names refer to the tools, models and agents passed to `load`. `module:name` is imported if it is
allowed; `openai:gpt-5` is LangChain's name of a model, which is created at its first call. An agent
made in Python is written `agent: NAME`; a plain name is a tool or a model. An agent without a `model`
uses that of the nearest agent around it. `until: {value: approved, is: true}` ends a loop. Words have
their meaning in YAML 1.2 and JSON: `no` is a text. Anchors, aliases, tags and repeated keys are faults.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from agentgraph.agents.agents import Agent
from agentgraph.agents.builders import as_tuple
from agentgraph.errors import AgentGraphError, InvalidSkillError
from agentgraph.safe_repr import shown
from agentgraph.skills.checking import built, checked
from agentgraph.skills.reading import Document, Fault, read
from agentgraph.skills.references import References
from agentgraph.skills.schema import ValueIs, json_schema

__all__ = ["ValueIs", "json_schema", "load"]


def load(
    path: str | os.PathLike[str],
    *,
    tools: Mapping[str, object] | None = None,
    models: Mapping[str, object] | None = None,
    agents: Mapping[str, Agent] | None = None,
    allow: Iterable[str] = (),
) -> Agent:
    """Return the agent that a skill file describes, equal to one made by the builders.

    ```
    report = load("report.yaml", models={"writer": ChatOpenAI(...)}, tools={"search": search})
    print(report)
    report (sequential)
    ├─ write (chat, writes draft)
    └─ boss (human)
    ```

    Args:
        path: The file, YAML or JSON in UTF-8.
        tools: The tools that the file may name: LangChain tools and functions by name.
        models: The models that the file may name, in addition to LangChain's own names.
        agents: The agents that the file may name.
        allow: References that the file may import, as `module:name`, or `module:*` for all public
            names of a module: its `__all__`, or else the public names that it defines. An import
            runs the module; the imported object is not called.

    Raises:
        InvalidSkillError: The file cannot be read, or has faults; the error lists all of them with
            their lines. Faults of the tree are included if every part of the file is well formed.
        AgentGraphError: An entry of `allow` is not a reference, or `path` is not a path.
    """
    if not isinstance(path, str | os.PathLike):
        raise AgentGraphError(
            f"path={shown(path)} is not the path of a skill file; pass one, such as 'report.yaml'"
        )
    names = References(
        tools=tools or {}, models=models or {}, agents=agents or {}, allow=as_tuple(allow)
    )
    agent, faults = _built(read(_text(Path(path))), names)
    if agent is None or faults:
        in_order = sorted(faults, key=lambda fault: fault.line)
        raise InvalidSkillError([f"{Path(path)}:{fault.line}: {fault.text}" for fault in in_order])
    return agent


def _built(document: Document, names: References) -> tuple[Agent | None, tuple[Fault, ...]]:
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
        why = f"this is not UTF-8 text ({error}); save it as UTF-8"
        raise InvalidSkillError([f"{file}: {why}"]) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        why = f"the file cannot be read ({reason}); correct the path"
        raise InvalidSkillError([f"{file}: {why}"]) from None
    is_json = file.suffix.lower() == ".json"
    return text.replace("\t", " ") if is_json else text  # YAML does not allow tabs as indentation
