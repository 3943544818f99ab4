"""What stands in the fields of a skill file: names that are looked up, words, numbers, plain data."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo, WithJsonSchema
from pydantic_core import PydanticCustomError

from agentgraph.skills.references import Registry, UnknownReferenceError


def _refused(text: str) -> PydanticCustomError:
    return PydanticCustomError("refused", "{text}", {"text": text})


def _found(registry: Registry) -> AfterValidator:
    """Return a validator that replaces a name by what it stands for."""

    def find(name: str, info: ValidationInfo) -> Any:
        try:
            return info.context.find(registry, name)  # type: ignore[union-attr]
        except UnknownReferenceError as error:
            raise _refused(str(error)) from None

    return AfterValidator(find)


def _scalar(value: Any) -> Any:
    if isinstance(value, list | dict):
        raise _refused(
            "'is' should be a text, a number, true, false or null; compare with one of these"
        )
    return value


def _prompt(value: Any) -> Any:
    if isinstance(value, dict) and value and all(each is None for each in value.values()):
        raise _refused("'prompt' is a mapping without values; put a template in quotes")
    return value


def _provider_tool(tool: dict[str, Any]) -> dict[str, Any]:
    if "type" not in tool:
        raise _refused("a tool is a name, an agent as in agent: NAME, or a mapping with a type")
    return tool


ModelName = Annotated[str, _found("models")]
ToolName = Annotated[str, _found("tools")]
AgentName = Annotated[str, _found("agents")]
ProviderTool = Annotated[
    dict[str, Any],
    AfterValidator(_provider_tool),
    WithJsonSchema({"type": "object", "required": ["type"], "not": {"required": ["agent"]}}),
]
Prompt = Annotated[Any, AfterValidator(_prompt)]
Scalar = Annotated[
    Any,
    AfterValidator(_scalar),
    WithJsonSchema({"type": ["string", "number", "boolean", "null"]}),
]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0)]
History = Literal["shared", "path", "own", "last", "input"]
