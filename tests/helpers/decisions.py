"""A decision model."""

from typing import Any

from langchain_core.decisions import BaseDecisionModel, ClassifierResponse

TOKENS = 10
"""The tokens of a decision; a scripted reply has none."""


class Judge(BaseDecisionModel):
    """Approves everything."""

    model: str = "judge"

    @property
    def _provider(self) -> str:
        return "scripted"

    def _classify(self, state: object, questions: dict[str, Any]) -> ClassifierResponse:
        answers = {key: {"type": "noul", "noul": 0.1} for key in questions}
        usage = {"input_tokens": 7, "output_tokens": TOKENS - 7}
        return ClassifierResponse.model_validate(
            {"answers": answers, "model": "judge", "id": "1", "usage": usage}
        )
