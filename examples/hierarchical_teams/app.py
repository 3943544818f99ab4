"""Two teams, each with a supervisor, under one supervisor: research, then writing with files."""

import re
from collections.abc import Callable

import httpx

import agentgraph as ag
from examples.hierarchical_teams.offline import PAGES, SCRIPTS, find
from examples.models import model_or_script, web_search_or
from examples.play import play

MODEL = model_or_script("openai:gpt-5-mini", SCRIPTS)
TAGS = re.compile(r"<(script|style)\b.*?</\1>|<[^>]*>", re.DOTALL)
SECONDS, CHARACTERS = 20, 20_000


def scrape(urls: list[str]) -> str:
    """Read web pages."""
    return "\n\n".join(PAGES.get(url) or text_of(url) for url in urls)


def text_of(url: str) -> str:
    """Return the start of a web page, without its tags."""
    page = httpx.get(url, follow_redirects=True, timeout=SECONDS).raise_for_status()
    return " ".join(TAGS.sub(" ", page.text).split())[:CHARACTERS]


def write_file(name: str, lines: list[str], ctx: ag.Context) -> list[str | ag.SetValues]:
    """Write a file, and replace its text."""
    files = {**ctx.values.get("files", {}), name: lines}
    return [f"{name} has {len(lines)} lines.", ag.SetValues(files=files)]


def insert_lines(name: str, at: dict[int, str], ctx: ag.Context) -> list[str | ag.SetValues]:
    """Insert lines into a file, each before the line of a number from 0."""
    lines = list(ctx.values["files"][name])
    if not all(0 <= number <= len(lines) for number in at):
        raise ValueError(f"{name} has {len(lines)} lines")
    for number in sorted(at, reverse=True):
        lines.insert(number, at[number])
    return write_file(name, lines, ctx)


def read_file(name: str, ctx: ag.Context, start: int = 0, end: int | None = None) -> str:
    """Read the lines of a file from one number up to another, exclusive."""
    return "\n".join(ctx.values["files"][name][start:end])


def draw_chart(name: str, bars: dict[str, float], ctx: ag.Context) -> list[str | ag.SetValues]:
    """Draw a bar chart into a file."""
    most = max(bars.values())
    drawn = [f"{label:>12} {'#' * round(20 * bars[label] / most)} {bars[label]:g}" for label in bars]
    return write_file(name, drawn, ctx)


def instructed(task: str) -> Callable[[ag.Context], str]:
    """Return an instruction: a task, and the list of files."""
    return lambda ctx: f"{task} Ask nothing. The files: {[*ctx.values.get('files', {})]}"


research_team = ag.supervisor(
    "research_team",
    MODEL,
    [
        ag.chat_agent("searcher", MODEL, description="Searches the web.", tools=[web_search_or(find)]),
        ag.chat_agent("scraper", MODEL, description="Reads web pages.", tools=[scrape]),
    ],
    mode="handoff",
    output_mode="last",
    description="Finds out what the web knows.",
    instruction="Have your workers find what is asked for, then say what they found, with the sources.",
)
writing_team = ag.supervisor(
    "writing_team",
    MODEL,
    [
        ag.chat_agent(
            "note_taker",
            MODEL,
            description="Writes outlines.",
            instruction=instructed("Read what there is, and write an outline."),
            tools=[write_file, read_file],
            parallel_tools=False,  # each call adds to the files of the previous call
        ),
        ag.chat_agent(
            "writer",
            MODEL,
            description="Writes and edits documents from outlines.",
            instruction=instructed("Read the outline, and write or edit the document."),
            tools=[write_file, insert_lines, read_file],
            parallel_tools=False,
        ),
        ag.chat_agent(
            "illustrator",
            MODEL,
            description="Draws charts.",
            instruction=instructed("Draw what the task asks for."),
            tools=[read_file, draw_chart],
            parallel_tools=False,
        ),
    ],
    mode="handoff",
    output_mode="last",
    description="Writes documents, with outlines and charts.",
    instruction="Have your workers write what is asked for, then say which files there are.",
)
hierarchical_teams = ag.supervisor(
    "hierarchical_teams",
    MODEL,
    [research_team, writing_team],
    mode="handoff",
    output_mode="last",
    instruction="Have your teams do what the user asks for, then say what is done.",
    limits=ag.Limits(model_calls=60, on_limit="ask"),
)

if __name__ == "__main__":
    play(hierarchical_teams, "Research honeybees, and write a report.")
