"""LangChain's own tests of agents, run over the adapter; what fails is compared with `reasons.toml`.

The tests are in LangChain's source distribution, which is downloaded to `build/langchain`. Fails where
a test fails that has no reason, or has one and passes.
"""

import sys
import tarfile

from suite import HERE, REPOSITORY, VERSION, Suite, run

BUILD = REPOSITORY / "build" / "langchain"
SUITE = Suite(
    build=BUILD,
    source=BUILD / f"langchain-{VERSION}",
    tests=["tests/unit_tests/agents"],
    module="tests.unit_tests.agents",
    reasons=HERE / "reasons.toml",
    needed=[
        *("blockbuster", "langchain-openai", "langchain-tests", "psutil", "pytest", "pytest-asyncio"),
        *("pytest-mock", "pytest-socket", "pytest-timeout", "pytest-xdist", "syrupy", "toml"),
    ],
)


def download() -> None:
    """Download the tests, unless they are there."""
    if SUITE.source.exists():
        return
    BUILD.mkdir(parents=True, exist_ok=True)
    options = ["--quiet", "--no-deps", "--no-binary=langchain"]
    run(BUILD, sys.executable, "-m", "pip", "download", *options, f"langchain=={VERSION}")
    with tarfile.open(BUILD / f"langchain-{VERSION}.tar.gz") as source:
        source.extractall(BUILD, filter="data")


if __name__ == "__main__":
    download()
    raise SystemExit(SUITE.compare())
