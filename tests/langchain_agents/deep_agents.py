"""deepagents' own tests of agents, run over the adapter; `deep_reasons.toml` says why some fail.

Its source distribution has no tests. So this takes the folder `libs/deepagents` of a clone of its
repository, at the tag of a version; that version is tested. Fails where a test fails that has no
reason, or has one and passes.
"""

import re
import sys
from pathlib import Path

from suite import HERE, REPOSITORY, Suite

_BUILDS = re.compile(r"\bcreate_(deep_)?agent\b")


def suite(folder: Path) -> Suite:
    """Return the tests in a folder that build agents."""
    files = sorted((folder / "tests" / "unit_tests").rglob("test_*.py"))
    return Suite(
        build=REPOSITORY / "build" / "deepagents",
        source=folder,
        tests=[str(file.relative_to(folder)) for file in files if _BUILDS.search(file.read_text())],
        module="tests.unit_tests",
        reasons=HERE / "deep_reasons.toml",
        needed=[
            *("--requirements", str(folder / "pyproject.toml")),
            *("av", "langchain-openai", "pillow", "pytest", "pytest-asyncio", "pytest-benchmark"),
            *("pytest-cov", "pytest-socket", "pytest-timeout", "pytest-xdist"),
        ],
        options=["-o", "asyncio_default_fixture_loop_scope=function"],  # warnings are errors there
    )


if __name__ == "__main__":
    if not sys.argv[1:] or not (Path(sys.argv[1]) / "tests" / "unit_tests").is_dir():
        raise SystemExit("Which tests? make deepagents TESTS=<clone of deepagents>/libs/deepagents")
    raise SystemExit(suite(Path(sys.argv[1]).resolve()).compare())
