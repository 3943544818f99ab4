"""Tells what a signal handler raised from the failure of the code that it interrupted.

Python calls signal handlers between any two steps of the main thread, so what they raise comes out of
code that has done nothing wrong, such as the check of a file or of an input.
"""

import signal
from collections.abc import Iterator
from traceback import walk_tb
from types import CodeType


def is_of_a_handler(error: BaseException) -> bool:
    """Return whether an exception was raised in the code of a signal handler that is installed."""
    handlers = {*_codes()}
    return any(frame.f_code in handlers for frame, _ in walk_tb(error.__traceback__))


def _codes() -> Iterator[CodeType]:
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        for each in (handler, getattr(handler, "func", None), getattr(handler, "__call__", None)):  # noqa: B004
            code = getattr(each, "__code__", None)
            if isinstance(code, CodeType):
                yield code
