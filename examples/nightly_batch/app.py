"""Nightly batch: summarizes each file of a folder, and continues after a kill.

`python examples/nightly_batch/app.py FOLDER` writes `results.jsonl`, and `runs.db` with a thread a day.
A folder that does not exist is made, with 200 files.
"""

import json
from datetime import date
from pathlib import Path
from typing import Any

from langgraph.types import RetryPolicy
from pydantic import BaseModel, Field

import agentgraph as ag
from examples.models import announce, arguments, model_or_script
from examples.nightly_batch.offline import SCRIPTS, make_files


class Summary(BaseModel):
    """The title and the topic of a file."""

    title: str
    topic: str = Field(description="One word.")


def files(ctx: ag.Context) -> list[str]:
    """List the files; the list is saved, so that new files wait for the next night."""
    return sorted(str(path) for path in Path(ctx.values["folder"]).glob("*.txt"))


def text(ctx: ag.Context) -> str:
    """Read the file of an item."""
    return f"{ctx.values['file']}\n\n{Path(ctx.values['file']).read_text(encoding='utf-8')}"


@ag.agent
def report(ctx: ag.Context) -> str:
    """Write the results and the errors, a line for each file."""
    summaries, failed = ctx.values["summaries"], ctx.values["failed"]
    results = [
        {"file": name, **(summary or {"error": failed[name]})} for name, summary in summaries.items()
    ]
    lines = "".join(json.dumps(result) + "\n" for result in results)
    (Path(ctx.values["folder"]) / "results.jsonl").write_text(lines, encoding="utf-8")
    return f"{len(results) - len(failed)} files are done, {len(failed)} failed."


summarize = ag.chat_agent(
    "summarize",
    model_or_script("openai:gpt-5-mini", SCRIPTS),
    instruction="Give the text a title and a topic.",
    output_schema=Summary,
    output_key="summary",
    retry=RetryPolicy(initial_interval=0.1, max_attempts=5),
)
inbox = ag.each(
    "inbox",
    summarize,
    files,
    as_="file",
    key=lambda file: Path(file).stem,
    input=text,
    max_concurrency=8,
    on_error="collect",
    output_key="summaries",
    errors_key="failed",
)
nightly_batch = ag.sequential("nightly_batch", [inbox, report])


def main(folder: str, night: str) -> None:
    """Run the batch of a night, or resume it after a kill."""
    with ag.Runner(nightly_batch, checkpointer=Path(folder) / "runs.db") as runner:
        is_new = night not in [each.thread_id for each in runner.threads(limit=1)]
        begin: Any = {"messages": "Go.", "values": {"folder": folder}} if is_new else {}
        runner.invoke(thread_id=night, **begin)
        print(runner.thread(night).messages[-1].text)


if __name__ == "__main__":
    folder = Path(*arguments("the folder; inbox by default")[:1] or ["inbox"])
    announce()
    if not folder.exists():
        make_files(folder)
    main(str(folder), date.today().isoformat())
