"""LangChain's own tests of agents, run over the adapter; what fails is compared with `reasons.toml`.

The tests are in LangChain's source distribution, which is downloaded to `build/langchain`; they are run
as they are, in an environment of their own. First over LangChain's `create_agent`, for some fail here
anyway; then over the adapter. Fails where a test fails that has no reason, or has one and passes.
"""

import subprocess
import sys
import tarfile
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
BUILD = REPOSITORY / "build" / "langchain"
VERSION = version("langchain")
SOURCE = BUILD / f"langchain-{VERSION}"
PYTHON = BUILD / "venv" / "bin" / "python"
NEEDED = [
    *("blockbuster", "langchain-openai", "langchain-tests", "psutil", "pytest", "pytest-asyncio"),
    *("pytest-mock", "pytest-socket", "pytest-timeout", "pytest-xdist", "syrupy", "toml"),
]
"""What LangChain's tests of agents import, and what bounds them."""
SECONDS = 60
"""How long a test may take. One that takes longer ends with its worker; so none can hang the run."""


def main() -> int:
    """Run the tests, and print each that fails."""
    set_up()
    theirs = failing("theirs")
    ours = failing("ours", "-p", "adapter")
    reasons = dict(named())
    unknown = sorted(ours - theirs - reasons.keys())
    passing = sorted(reasons.keys() - ours)
    for why in dict.fromkeys(reasons.values()):
        tests = sorted(test for test, reason in reasons.items() if reason == why and test in ours)
        print(f"\n{why}", *(f"  {test}" for test in tests), sep="\n")
    print(f"\n{len(ours - theirs)} tests fail over the adapter, {len(theirs)} without it.")
    for what, tests in (("fails without a reason", unknown), ("has a reason, but passes", passing)):
        print(*(f"{what}: {test}" for test in tests), sep="\n")
    return 1 if unknown or passing else 0


def set_up() -> None:
    """Download the tests, and make an environment for them."""
    if not SOURCE.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        options = ["--quiet", "--no-deps", "--no-binary=langchain"]
        run(sys.executable, "-m", "pip", "download", *options, f"langchain=={VERSION}")
        with tarfile.open(BUILD / f"langchain-{VERSION}.tar.gz") as source:
            source.extractall(BUILD, filter="data")
    ready, needed = BUILD / "ready", [f"langchain=={VERSION}", *NEEDED]
    if not ready.exists() or ready.read_text() != " ".join(needed):
        uv = str(Path(sys.executable).with_name("uv"))
        run(uv, "venv", "--quiet", "--clear", str(PYTHON.parents[1]))
        options = ["--quiet", "--python", str(PYTHON), "--editable", str(REPOSITORY)]
        run(uv, "pip", "install", *options, *needed)
        ready.write_text(" ".join(needed))


def failing(name: str, *options: str) -> set[str]:
    """Run the tests, and return those that fail, as `middleware.core.test_x.TestY::test_z`."""
    report = BUILD / f"{name}.xml"
    report.unlink(missing_ok=True)
    command = [str(PYTHON), "-m", "pytest", "tests/unit_tests/agents", "--quiet", "--tb=no"]
    bounded = ["--numprocesses=2", f"--timeout={SECONDS}", "--timeout-method=thread"]
    subprocess.run(
        [*command, *bounded, "-p", "no:cacheprovider", f"--junitxml={report}", *options],
        cwd=SOURCE,
        env={"PYTHONPATH": str(HERE), "PATH": "/usr/bin:/bin"},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    return set(_failed(report))


def _failed(report: Path) -> Iterator[str]:
    for case in ET.parse(report).iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            where = case.attrib["classname"].removeprefix("tests.unit_tests.agents.")
            yield f"{where}::{case.attrib['name']}"


def named() -> Iterator[tuple[str, str]]:
    """Yield the tests that are known to fail, each with the reason."""
    for reason in tomllib.loads((HERE / "reasons.toml").read_text())["reason"]:
        yield from ((test, reason["why"]) for test in reason["tests"])


def run(*command: str) -> None:
    """Run a command in the folder of what is built."""
    subprocess.run(command, cwd=BUILD, check=True)


if __name__ == "__main__":
    raise SystemExit(main())
