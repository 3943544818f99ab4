"""Tests of others that are run over the adapter, and compared with the reasons why some fail.

They are run as they are, in an environment of their own. First over LangChain's `create_agent`, for
some fail here anyway; then over the adapter.
"""

import subprocess
import sys
import tomllib
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
REPOSITORY = HERE.parents[1]
VERSION = version("langchain")
SECONDS = 60
"""How long a test may take. One that takes longer ends with its worker; so none can hang the run."""


@dataclass(frozen=True, kw_only=True)
class Suite:
    """Tests of others.

    Attributes:
        build: The folder for the environment and the reports.
        source: The folder that the tests are run in.
        tests: Their files and folders, inside `source`.
        module: The beginning of the names of their modules, which is left out.
        reasons: The file with the tests that are known to fail, and why.
        needed: The arguments that install what the tests import.
        options: Options of pytest.
    """

    build: Path
    source: Path
    tests: Sequence[str]
    module: str
    reasons: Path
    needed: Sequence[str]
    options: Sequence[str] = ()

    @property
    def python(self) -> Path:
        """The interpreter of the environment."""
        return self.build / "venv" / "bin" / "python"

    def compare(self) -> int:
        """Run the tests, and print each that fails.

        Returns:
            1 if a test fails that has no reason, or has one and passes; else 0.
        """
        self.set_up()
        theirs = self.failing("theirs")
        ours = self.failing("ours", "-p", "adapter")
        reasons = dict(self.named())
        unknown = sorted(ours - theirs - reasons.keys())
        passing = sorted(reasons.keys() - ours)
        for why in dict.fromkeys(reasons.values()):
            tests = sorted(test for test, reason in reasons.items() if reason == why and test in ours)
            print(f"\n{why}", *(f"  {test}" for test in tests), sep="\n")
        print(f"\n{len(ours - theirs)} tests fail over the adapter, {len(theirs)} without it.")
        for what, tests in (
            ("fails without a reason", unknown),
            ("has a reason, but passes", passing),
        ):
            print(*(f"{what}: {test}" for test in tests), sep="\n")
        return 1 if unknown or passing else 0

    def set_up(self) -> None:
        """Make an environment for the tests, unless it is there."""
        self.build.mkdir(parents=True, exist_ok=True)
        ready, needed = self.build / "ready", [f"langchain=={VERSION}", *self.needed]
        if ready.exists() and ready.read_text() == " ".join(needed):
            return
        uv = str(Path(sys.executable).with_name("uv"))
        run(self.build, uv, "venv", "--quiet", "--clear", str(self.python.parents[1]))
        options = ["--quiet", "--python", str(self.python), "--editable", str(REPOSITORY)]
        run(self.build, uv, "pip", "install", *options, *needed)
        ready.write_text(" ".join(needed))

    def failing(self, name: str, *options: str) -> set[str]:
        """Run the tests, and return those that fail, as `middleware.core.test_x.TestY::test_z`."""
        report = self.build / f"{name}.xml"
        report.unlink(missing_ok=True)
        command = [str(self.python), "-m", "pytest", *self.tests, "--quiet", "--tb=no"]
        bounded = ["--numprocesses=2", f"--timeout={SECONDS}", "--timeout-method=thread"]
        reported = ["-p", "no:cacheprovider", f"--junitxml={report}"]
        subprocess.run(
            [*command, *bounded, *reported, *self.options, *options],
            cwd=self.source,
            env={"PYTHONPATH": str(HERE), "PATH": "/usr/bin:/bin", "HOME": str(self.build)},
            stdout=subprocess.DEVNULL,
            check=False,
        )
        return set(self._failed(report))

    def _failed(self, report: Path) -> Iterator[str]:
        for case in ET.parse(report).iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                where = case.attrib["classname"].removeprefix(f"{self.module}.")
                yield f"{where}::{case.attrib['name']}"

    def named(self) -> Iterator[tuple[str, str]]:
        """Yield the tests that are known to fail, each with the reason."""
        for reason in tomllib.loads(self.reasons.read_text())["reason"]:
            yield from ((test, reason["why"]) for test in reason["tests"])


def run(folder: Path, *command: str) -> None:
    """Run a command in a folder."""
    subprocess.run(command, cwd=folder, check=True)
