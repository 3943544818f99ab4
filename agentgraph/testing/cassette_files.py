"""The file of a cassette: sorted JSON for review in diffs, always written as a whole.

Only places and parts are sorted: the arguments of a call keep the order of the model's reply.

```
{"agentgraph_cassette": 1,
 "answers": {"0 report/writer model call 0": [
   {"asked": {"messages": ["5f0c..."], "offered": "99ab..."}, "mark": "1d2e...",
    "reply": {"content": "Bees hum.", "type": "ai"}}]},
 "parts": {"5f0c...": {"content": "Go.", "type": "human"}, "99ab...": {}}}
```

Each call sends the conversation again, so each message is stored once, in `parts`, by its hash.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from agentgraph.errors import CassetteError
from agentgraph.safe_repr import reason

_VERSION = "agentgraph_cassette"
OUTCOMES = ("reply", "returned", "raised", "called")
"""The keys of an entry's outcome; the entry of a tool that waits for a person has none yet.

A "called" tool changes messages of the run, so it is called even in playback."""

Entry = dict[str, Any]
"""One answer: its question, the hash of the question (`mark`), and the outcome."""
Form = Mapping[str, Any]
"""A JSON object."""


class Question(NamedTuple):
    """The input of a call of a model or a tool.

    Attributes:
        asked: The form of the input in an entry.
        parts: The messages and tools to which `asked` refers, by hash.
        mark: The hash of the whole input.
    """

    asked: Form
    parts: Form
    mark: str


def mark_of(data: object) -> str:
    """Return the hash of JSON data, the same in each process."""
    text = json.dumps(data, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class CassetteFile:
    """The answers in a file, by the places of their calls.

    Attributes:
        path: The file.
        answers: The entries of each place, in the order in which they were recorded.
        parts: The messages and tools that entries refer to, by hash.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read a file; a missing file counts as empty.

        Raises:
            CassetteError: The file cannot be read, or is not a cassette.
        """
        self.path = Path(path)
        self.answers: dict[str, list[Entry]] = {}
        self.parts: dict[str, object] = {}
        self._changed: set[str] = set()
        self._seen: object = None
        self._merge()

    def put(self, where: str, entries: Sequence[Entry], parts: Form) -> None:
        """Replace the entries of one place, and write the file.

        Raises:
            CassetteError: The file cannot be written.
        """
        if self._version() != self._seen:
            self._merge()  # another process has written
        self.answers[where] = list(entries)
        self.parts.update(parts)
        self._changed.add(where)
        self._write()

    def _merge(self) -> None:
        self._seen = self._version()
        if self._seen is None:
            return
        answers, parts = self._read()
        others = {where: each for where, each in answers.items() if where not in self._changed}
        self.answers.update(others)
        self.parts.update(parts)

    def _version(self) -> object:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._error("cannot be read", error) from error
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self) -> tuple[dict[str, list[Entry]], dict[str, object]]:
        try:
            data = json.loads(self.path.read_text("utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise self._error("cannot be read", error) from error
        match data:
            case {"answers": dict() as answers, "parts": dict() as parts} if data.get(_VERSION) == 1:
                if all(map(_are_entries, answers.values())):
                    return answers, parts
        raise CassetteError(
            f"{self.path} is not a cassette; delete it, or choose another path", str(self.path)
        )

    def _write(self) -> None:
        """Replace the file atomically, so that no other process reads a part of it."""
        marks = {mark for each in self.answers.values() for entry in each for mark in _parts_of(entry)}
        parts = {mark: self.parts[mark] for mark in sorted(marks & self.parts.keys())}
        data = {_VERSION: 1, "answers": dict(sorted(self.answers.items())), "parts": parts}
        text = json.dumps(data, indent=1, ensure_ascii=False)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.path.parent, prefix=f".{self.path.name}")
            try:
                with open(handle, "w", encoding="utf-8") as file:
                    file.write(f"{text}\n")
                os.replace(name, self.path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(name)
                raise
        except (OSError, ValueError) as error:
            raise self._error("cannot be written", error) from error
        self._seen = self._version()

    def _error(self, what: str, error: Exception) -> CassetteError:
        return CassetteError(
            f"the cassette {self.path} {what} ({reason(error)}); fix or delete it, or change the path",
            str(self.path),
        )


def _are_entries(entries: object) -> bool:
    return isinstance(entries, list) and all(map(_is_entry, entries))


def _is_entry(entry: object) -> bool:
    match entry:
        case {"mark": str(), "asked": dict()}:
            return True
    return False


def _parts_of(entry: Entry) -> list[str]:
    asked = entry["asked"]
    return [*asked.get("messages", ()), *([asked["offered"]] if "offered" in asked else [])]
