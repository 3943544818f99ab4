"""What is wrong with options of builders that are numbers or words."""

from collections.abc import Iterator

from agentgraph.safe_repr import shown


def limit_faults(name: str, limit: object, *, needed: bool = False) -> Iterator[str]:
    """Yield what is wrong with a bound, which is a number from 1, or None unless it is needed."""
    is_number = isinstance(limit, int) and not isinstance(limit, bool) and limit >= 1
    if not is_number and (needed or limit is not None):
        instead = "" if needed else ", or None for no bound"
        yield f"{name}={shown(limit)} is no limit; use a whole number from 1{instead}"


def word_faults(name: str, word: object, words: tuple[str, ...]) -> Iterator[str]:
    """Yield what is wrong with an option that is one of some words."""
    if not isinstance(word, str) or word not in words:
        yield f"{name}={shown(word)} is not known; use {' or '.join(map(shown, words))}"
