"""Records the decisions that LangChain's middleware asks of decision models, and plays them.

Auto mode and the model router hold their model and ask it in a hook, which our wraps do not reach. So
a tree that is recorded runs copies of such middleware, whose models ask the recorder.
"""

import copy
from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from langchain_core.decisions import BaseDecisionModel, ClassifierResponse
from langchain_core.messages import BaseMessage
from langgraph.config import get_config
from pydantic import BaseModel, PrivateAttr

from agentgraph.graph.chat.model_call import Asking
from agentgraph.graph.chat.tool_call import RUNNING
from agentgraph.graph.nodes.activation import ADDRESS, TURN
from agentgraph.graph.sync_async import Call, arun_calls, run_calls
from agentgraph.testing.cassette_files import Question
from agentgraph.testing.cassettes import Place, place_of
from agentgraph.testing.questions import message_form, tool_question

M = TypeVar("M")


class Recorder(Protocol):
    """Stores or plays decisions."""

    async def decision(
        self, place: Place, question: Question, ask: Call, model: object
    ) -> dict[str, object]:
        """Ask a decision model, or return its recorded answer or raise its recorded exception."""


def with_recorded_decisions(middleware: M, recorder: Recorder) -> M:
    """Return middleware whose decision models are recorded: a copy, if it has any."""
    models = {
        name: value
        for name, value in getattr(middleware, "__dict__", {}).items()
        if isinstance(value, BaseDecisionModel)
    }
    if not models:
        return middleware
    recorded = copy.copy(middleware)
    for name, model in models.items():
        setattr(recorded, name, RecordedDecisions.of(model, recorder))
    return recorded


class RecordedDecisions(BaseDecisionModel):
    """A decision model whose answers a recorder stores, or plays."""

    _model: Any = PrivateAttr()
    _recorder: Any = PrivateAttr()

    @classmethod
    def of(cls, model: BaseDecisionModel, recorder: Recorder) -> "RecordedDecisions":
        """Return the recorded form of a model."""
        made = cls(model=model.model)
        made._model, made._recorder = model, recorder
        return made

    @property
    def _provider(self) -> str:
        provider: str = self._model._provider
        return provider

    def _classify(self, state: Any, questions: dict[str, Any]) -> ClassifierResponse:
        return run_calls(self._decide(state, questions))

    async def _aclassify(self, state: Any, questions: dict[str, Any]) -> ClassifierResponse:
        return await arun_calls(self._decide(state, questions))

    async def _decide(self, state: Any, questions: dict[str, Any]) -> ClassifierResponse:
        ask = Call(self._model._classify, self._model._aclassify, (state, questions))
        answer = await self._recorder.decision(
            _place(), _question(self.model, state, questions), ask, self._model
        )
        return ClassifierResponse.model_validate(answer)


def _place() -> Place:
    """Return the place of a decision: the activation in whose hook, tool or model call it is made."""
    if (call := RUNNING.get(None) or Asking.current()) is not None:
        return place_of(call.activation, "decision")
    config = get_config()
    metadata = config.get("metadata", {})
    return Place(config["configurable"].get("thread_id"), metadata[TURN], metadata[ADDRESS], "decision")


def _question(model: str, state: Any, questions: Mapping[str, Any]) -> Question:
    return tool_question(f"decision of {model}", {"state": _form(state), "questions": _form(questions)})


def _form(part: Any) -> Any:
    """Return a part of the input as data without ids, which differ from run to run."""
    match part:
        case BaseMessage():
            return message_form(part)
        case BaseModel():
            return part.model_dump(mode="json")
        case Mapping():
            return {key: _form(value) for key, value in part.items() if key != "id"}
        case list() | tuple():
            return [_form(each) for each in part]
    return part
