"""Where an exception arose, and what was asked beside it: kept on the exception on its way out."""

from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

_KEY = "agentgraph_failures"
_ASKED = "agentgraph_asked"
_AT_BORDER = "agentgraph_at_border"


def mark_failure(error: BaseException, address: str, agent_name: str) -> None:
    """Write on `error` where it arose, if that is not written there yet."""
    if not failures(error):
        setattr(error, _KEY, [(address, repr(error))])
        error.add_note(f"This happened in the agent {agent_name!r}, at {address}.")


def mark_border(error: BaseException) -> None:
    """Write on `error` that the agent had ended before: to run that again would not help."""
    setattr(error, _AT_BORDER, True)


def arose_at_border(error: BaseException) -> bool:
    """Tell whether `error` arose when its agent had ended."""
    return getattr(error, _AT_BORDER, False)


def join_failures(error: BaseException, errors: Sequence[BaseException]) -> None:
    """Write the failures of several errors, in their order, on the one that is raised for all."""
    setattr(error, _KEY, [failure for each in errors for failure in failures(each)])


def failures(error: BaseException) -> list[tuple[str, str]]:
    """Return the failures that `error` is raised for, each as an address and a `repr`."""
    found: list[tuple[str, str]] = getattr(error, _KEY, [])
    return found


def each_once(asked: Iterable[Any]) -> list[Any]:
    """Return questions without those that are there already: each node on the way up adds its own."""
    return list({one.id: one for one in asked}.values())


def keep_asked(error: BaseException, asked: Sequence[Any]) -> None:
    """Write on `error` the questions that were asked beside it, and that nothing else tells."""
    setattr(error, _ASKED, list(asked))


def asked_beside(error: BaseException) -> list[Any]:
    """Return the questions that were asked beside the failure that `error` is raised for."""
    found: list[Any] = getattr(error, _ASKED, [])
    return found


def raise_together(failed: Sequence[Exception], questions: Sequence[Any]) -> NoReturn:
    """Raise the first of several errors for all of them, with the questions that were asked beside."""
    join_failures(failed[0], failed)
    beside = [asked for error in failed for asked in asked_beside(error)]
    keep_asked(failed[0], each_once([*beside, *questions]))
    raise failed[0]
