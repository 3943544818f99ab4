"""Temporary environments with a wheel in them, and the interpreters that make them."""

import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

REPOSITORY = Path(__file__).parents[2]
UV = str(Path(sys.executable).with_name("uv"))
NAME = "langgraph-agentgraph"
SECONDS = 900
"""How long a command may take."""
LONGEST = 3000
"""Maximum number of characters shown of a command that failed."""


class FailedError(Exception):
    """A command failed; its text is the end of what it printed."""


@dataclass(frozen=True)
class Distributions:
    """What was built: the file of the wheel, and the folder of the unpacked sdist."""

    wheel: Path
    sdist: Path


def build(folder: Path) -> Distributions:
    """Build the sdist, and the wheel from the sdist, as an installer without the wheel would."""
    run(UV, "build", "--quiet", "--out-dir", str(folder / "dist"), str(REPOSITORY), cwd=folder)
    (wheel,) = (folder / "dist").glob("*.whl")
    (sdist,) = (folder / "dist").glob("*.tar.gz")
    with tarfile.open(sdist) as packed:
        packed.extractall(folder, filter="data")
    return Distributions(wheel, folder / sdist.name.removesuffix(".tar.gz"))


def interpreter(name: str) -> Path | None:
    """Find the interpreter of a version: on the path, of pyenv or of uv; a path is one itself."""
    places = [Path(name)] if "/" in name else _places_of(name)
    return next((each for each in places if _starts(each)), None)


def _places_of(name: str) -> Iterator[Path]:
    if on_path := shutil.which(f"python{name}"):
        yield Path(on_path)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    yield from sorted(pyenv.glob(f"{name}.*/bin/python"))
    asked = [UV, "python", "find", "--managed-python", "--no-python-downloads", name]
    found = subprocess.run(asked, capture_output=True, text=True, check=False)
    if found.returncode == 0:
        yield Path(found.stdout.strip())


def _starts(path: Path) -> bool:
    """Return whether an interpreter starts; pyenv leaves stubs on the path that do not."""
    try:
        return subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


class Environment:
    """A temporary environment.

    Args:
        folder: Where it is made, with the folder that its programs run in.
        interpreter: What it is made of.
        lowest: Whether it has the lowest versions of what pyproject.toml names; else the newest.
    """

    def __init__(self, folder: Path, interpreter: Path, *, lowest: bool) -> None:
        self._folder, self._lowest = folder, lowest
        self._work = folder / "work"
        self._work.mkdir(parents=True)
        run(UV, "venv", "--quiet", "--python", str(interpreter), str(folder / "venv"), cwd=folder)

    @property
    def _bin(self) -> Path:
        return self._folder / "venv" / "bin"

    @cached_property
    def version(self) -> str:
        """The version of its Python."""
        return self.python("-c", "import platform; print(platform.python_version())")

    def install(
        self,
        built: Distributions,
        extras: Sequence[str],
        beside: Sequence[str] = (),
        group: str | None = None,
    ) -> None:
        """Install the wheel with extras, other packages beside it, and a group of pyproject.toml.

        The requirements are read from pyproject.toml, for to uv those of a wheel are indirect ones,
        which are always the newest.
        """
        named = f"[{','.join(extras)}]" if extras else ""
        wheel = f"{NAME}{named} @ {built.wheel.as_uri()}"
        project = str(built.sdist / "pyproject.toml")
        options = [
            "--requirements",
            project,
            *(part for extra in extras for part in ("--extra", extra)),
        ]
        options += ["--group", f"{project}:{group}"] if group else []
        bound = "lowest-direct" if self._lowest else "highest"
        where = ["--quiet", "--python", str(self._bin / "python"), "--resolution", bound]
        run(UV, "pip", "install", *where, *options, wheel, *beside, cwd=self._work)

    def python(self, *arguments: str) -> str:
        """Run its Python in an empty folder, and return the last line that it prints."""
        lines = run(str(self._bin / "python"), *arguments, cwd=self._work, bin=self._bin).splitlines()
        return lines[-1] if lines else ""

    def pytest(self, folder: Path, *tests: str) -> str:
        """Run tests in a folder, and return pytest's summary."""
        options = ["-p", "no:cacheprovider", "--tb=short", "-o", "addopts=", "--strict-markers"]
        options += ["--hypothesis-profile=ci", "-p", "no:langsmith_plugin", "-q"]
        printed = run(str(self._bin / "pytest"), *options, *tests, cwd=folder, bin=self._bin)
        return printed.splitlines()[-1].partition(" in ")[0].strip("= ")

    def clone_without_code(self) -> Path:
        """Copy what git knows of the repository; its code is that of the wheel."""
        clone = self._work / "clone"
        listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=REPOSITORY)
        for name in listed.splitlines():
            if (REPOSITORY / name).is_file() and not name.startswith("agentgraph/"):
                (clone / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(REPOSITORY / name, clone / name)
        run("git", "init", "--quiet", cwd=clone)
        code = self.python(
            "-c", "import agentgraph, pathlib; print(pathlib.Path(agentgraph.__file__).parent)"
        )
        (clone / "agentgraph").symlink_to(code)
        return clone

    def versions(self, *names: str) -> list[str]:
        """Return the versions of packages, "-" for one that is not installed."""
        code = (
            "import sys; from importlib.metadata import distributions\n"
            "found = {each.name.lower(): each.version for each in distributions()}\n"
            "print(*[found.get(name, '-') for name in sys.argv[1:]])"
        )
        return self.python("-c", code, *names).split()

    def remove(self) -> None:
        """Delete it: all environments together are some gigabytes."""
        shutil.rmtree(self._folder)


def run(*command: str, cwd: Path, bin: Path | None = None) -> str:
    """Run a command outside of this environment, and return what it prints.

    Raises:
        FailedError: It failed, or took too long.
    """
    hidden = ("PYTHONPATH", "VIRTUAL_ENV", "OPENAI_API_KEY")
    environ = {name: value for name, value in os.environ.items() if name not in hidden}
    if bin:
        environ["PATH"] = f"{bin}{os.pathsep}{environ['PATH']}"
    try:
        ended = subprocess.run(
            command,
            cwd=cwd,
            env=environ,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise FailedError(f"{' '.join(command)}: took more than {SECONDS} seconds") from error
    if ended.returncode:
        printed = ended.stdout[-LONGEST:]
        raise FailedError(f"{' '.join(command)}: exited with {ended.returncode}\n{printed}")
    return ended.stdout
