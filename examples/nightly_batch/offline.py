"""A folder of files for the nightly batch, and a script instead of the model."""

import time
from pathlib import Path

from langchain_core.messages import AIMessage, BaseMessage

from agentgraph.testing import call, calls
from examples.models import Script

TOPICS = ("bees", "ants", "wasps")


def make_files(folder: Path, count: int = 200) -> None:
    """Write the files: one is not text, and each fiftieth has no topic."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        about = TOPICS[number % 3] if number % 50 else "nothing"
        (folder / f"f{number:03}.txt").write_text(f"Note {number}, on {about}.", encoding="utf-8")
    (folder / "f001.txt").write_bytes(b"\xff\xfe\x00")


def _summarize(messages: list[BaseMessage]) -> AIMessage:
    """Summarize a file, and write it on the bill, as a provider would."""
    file, _, text = messages[-1].text.partition("\n\n")
    time.sleep(0.01)
    with Path(file).with_name("bill.log").open("a", encoding="utf-8") as bill:
        bill.write(f"{Path(file).stem}\n")
    title, _, topic = text.rstrip(".").partition(", on ")
    if topic == "nothing":
        raise ValueError("the model has nothing to say about nothing")
    return calls(call("Summary", title=title, topic=topic))


SCRIPTS: dict[str, Script] = {"summarize": _summarize}
