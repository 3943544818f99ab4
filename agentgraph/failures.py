"""At what address an exception arose: kept on the exception itself, on its way out of the graph."""

_KEY = "agentgraph_failures"


def mark_failure(error: BaseException, address: str) -> None:
    """Write on `error` that it is the failure of the activation at `address`."""
    setattr(error, _KEY, [(address, repr(error))])


def join_failures(error: BaseException, others: list[BaseException]) -> None:
    """Write the failures of `others` on `error`, which is raised for all of them."""
    setattr(error, _KEY, [failure for each in (error, *others) for failure in failures(each)])


def failures(error: BaseException) -> list[tuple[str, str]]:
    """Return the failures that `error` is raised for, each as an address and a `repr`."""
    found: list[tuple[str, str]] = getattr(error, _KEY, [])
    return found
