"""Tells what a signal handler raised from the failure of the code that it interrupted.

Python calls signal handlers between any two steps of the main thread, so what they raise comes out of
code that has done nothing wrong, such as the check of a file or of an input.
"""

import signal
import sys
import sysconfig
from collections.abc import Iterator
from inspect import CO_GENERATOR
from pathlib import Path
from traceback import walk_tb
from types import CodeType, FrameType

_LIBRARIES = (
    str(Path(__file__).parents[1]),
    *(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")),
    sys.prefix,
    "<",
)
"""Where the code is that reads files and inputs."""
_OF_DATA = ("langgraph.checkpoint.serde", "agentgraph.graph.strict")
"""The modules that call the classes of users, to make objects of them."""


def is_of_a_handler(error: BaseException, *, owner: object = None) -> bool:
    """Return whether a signal handler raised an exception, where no code of users runs but an owner's.

    Args:
        error: The exception.
        owner: A saver of the user's own, whose methods may be called.
    """
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    handlers = {*_codes()}
    if any(frame.f_code in handlers for frame in frames):
        return True
    foreign = next((frame for frame in frames if not _is_known(frame)), None)
    if foreign is None or foreign.f_code.co_flags & CO_GENERATOR:
        return False
    of_data = any(str(frame.f_globals.get("__name__")).startswith(_OF_DATA) for frame in frames)
    own = foreign.f_locals.get("self")
    is_owner = own is None or type(own).__module__ == type(owner).__module__
    return not of_data and (owner is None or not is_owner)


def _codes() -> Iterator[CodeType]:
    """Yield the code of the signal handlers."""
    for number in signal.valid_signals():
        handler = signal.getsignal(number)
        for each in (handler, getattr(handler, "func", None), getattr(handler, "__call__", None)):  # noqa: B004
            code = getattr(each, "__code__", None)
            if isinstance(code, CodeType):
                yield code


def _is_known(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith(_LIBRARIES)
