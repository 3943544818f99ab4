"""Savers of other packages: the known abilities of each version, and its package.

`make savers` tries savers with `agentgraph.testing.check_saver`, and writes the results to
`known_savers.json`. A version that is not in that file is not known.
"""

import json
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple
from warnings import warn

from agentgraph.errors import AgentGraphError, UnfitSaverError
from agentgraph.graph.open_types import Saver
from agentgraph.graph.question_records import keeps_questions
from agentgraph.graph.saver_trial import SaverTrial
from agentgraph.safe_repr import shown

Unfit = Literal["refuse", "warn"]

NEEDED = ("answers", "replay", "fail and resume", "order", "kill")
"""The abilities without which runs are wrong. The others belong to single calls."""
_FILE = Path(__file__).with_name("known_savers.json")


class KnownSaver(NamedTuple):
    """The results of one saver.

    Attributes:
        name: The name of its class.
        package: The package.
        version: The version of the package that was tried.
        server: The server or file that it was tried with.
        results: The result of each ability: empty if it works, the reason if it does not, None if it
            was not tried.
    """

    name: str
    package: str
    version: str
    server: str
    results: Mapping[str, str | None]

    @property
    def faults(self) -> dict[str, str]:
        """The abilities that are missing, each with the reason."""
        return {name: why for name, why in self.results.items() if why}

    @property
    def works(self) -> list[str]:
        """The abilities that it has."""
        return [name for name, why in self.results.items() if why == ""]


class Fitness(NamedTuple):
    """The use of a saver by a Runner.

    Attributes:
        missing: The abilities that its calls reject, each with the reason.
        trial: Checks the saver in the first run; None if it is known.
    """

    missing: Mapping[str, str] = MappingProxyType({})
    trial: SaverTrial | None = None


def fitness_of(saver: Saver, unfit: Unfit) -> Fitness:
    """Return how a Runner uses a saver; LangGraph's and ours without a check.

    Args:
        saver: The saver.
        unfit: "refuse" to raise an error for a saver with which runs are wrong, or "warn".

    Raises:
        UnfitSaverError: Runs on it are known to be wrong.
        AgentGraphError: `unfit` is neither.
    """
    if unfit not in ("refuse", "warn"):
        raise AgentGraphError(f"unfit={shown(unfit)} is not known; pass 'refuse' or 'warn'")
    if keeps_questions(saver):
        return Fitness()
    if (known := known_saver(saver)) is None:
        return Fitness(trial=SaverTrial(saver, warns=unfit == "warn"))
    faults = known.faults
    needed = {name: why for name, why in faults.items() if name in NEEDED}
    if needed and unfit == "refuse":
        raise unfit_error(known, needed)
    if faults:
        warn(f"{_title(known)}: not supported: {_listed(faults)}", stacklevel=4)
    return Fitness({} if unfit == "warn" else faults)


def known_saver(saver: Saver) -> KnownSaver | None:
    """Return the results of a saver; None if its class, or the installed version, was not tried."""
    kind = type(saver)
    for known in known_savers():
        if known.name == f"{kind.__module__}.{kind.__qualname__}":
            try:
                return known if version(known.package) == known.version else None
            except PackageNotFoundError:
                return None
    return None


@cache
def known_savers() -> tuple[KnownSaver, ...]:
    """Return the results of all savers that were tried."""
    return tuple(KnownSaver(**each) for each in json.loads(_FILE.read_text()))


def unfit_error(known: KnownSaver, faults: Mapping[str, str]) -> UnfitSaverError:
    """Return the error for a saver on which runs are known to be wrong.

    Args:
        known: The saver.
        faults: The abilities that are missing, each with the reason.
    """
    return UnfitSaverError(
        f"checkpointer={known.name.rpartition('.')[2]}: runs on {_title(known)} are wrong "
        f"({_listed(faults)}); what works: {', '.join(known.works) or 'nothing'}; use another saver, "
        "such as ag.sqlite_saver(path), or pass unfit='warn' to the Runner",
        saver=known.name,
        package=(known.package, known.version),
        missing=list(faults),
        works=known.works,
    )


def _title(known: KnownSaver) -> str:
    return f"{known.name.rpartition('.')[2]} of {known.package} {known.version}"


def _listed(faults: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {why}" for name, why in faults.items())
