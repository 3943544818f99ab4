"""Frames of the live tree at different widths and heights."""

import re
from html import unescape

import pytest
from rich.cells import cell_len

from agentgraph.show.activity import Row
from agentgraph.show.screens import ascii_only, duration, frame, html, plain, spinner

ROWS = [
    Row(
        name="report",
        kind="sequential",
        state="running",
        runs=1,
        seconds=12.31,
        tokens_in=1234,
        tokens_out=56,
    ),
    Row(
        outline="├─ ", name="refine", kind="loop", state="done", runs=1, iteration="2 of 5", seconds=64
    ),
    Row(
        outline="│  ├─ ",
        name="write",
        kind="chat",
        state="done",
        runs=2,
        seconds=6,
        tokens_in=1234,
        tokens_out=56,
        text="A draft about bees, which hum in many keys and have six legs and two pairs of wings.",
    ),
    Row(
        outline="│  └─ ", name="judge", kind="function", state="running", runs=2, seconds=4, text="No."
    ),
    Row(
        outline="├─ ",
        name="boss",
        kind="human",
        state="asks",
        runs=1,
        seconds=0,
        text="[asks] Print it?",
    ),
    Row(
        outline="├─ ",
        name="fax",
        kind="function",
        state="failed",
        runs=1,
        seconds=1,
        text="[error] ValueError()",
    ),
    Row(outline="├─ ", name="post", kind="function", state="stopped", runs=1, seconds=1),
    Row(outline="└─ ", name="close", kind="function"),
]


def text(width: int, height: int | None = None) -> list[str]:
    return plain(frame(ROWS, width=width, height=height)).split("\n")


def test_with_room_all_columns_are_shown() -> None:
    assert text(90) == [
        "agent        kind        state      runs        time   tokens  last",
        "report       sequential  ▸ running            12.3 s  1.2k→56",
        "├─ refine    loop        ✓ done     2 of 5  1:04 min",
        "│  ├─ write  chat        ✓ done     2          6.0 s  1.2k→56  A draft about bees, which…",
        "│  └─ judge  function    ▸ running  2          4.0 s           No.",
        "├─ boss      human       ? asks                0.0 s           [asks] Print it?",
        "├─ fax       function    ✗ failed              1.0 s           [error] ValueError()",
        "├─ post      function    ■ stopped             1.0 s",
        "└─ close     function    · waiting",
    ]


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (90, "agent kind state runs time tokens last"),
        (80, "agent state runs time tokens last"),
        (70, "agent state runs time last"),
        (60, "agent state time last"),
        (50, "agent state last"),
        (24, "agent state"),
        (20, "agent state"),
    ],
)
def test_on_a_narrow_screen_columns_are_dropped_one_after_the_other(width: int, columns: str) -> None:
    assert text(width)[0].split() == columns.split()


def test_names_are_cut_last() -> None:
    assert text(22)[3:5] == ["│  ├─ write  ✓ done", "│  └─ judge  ▸ running"]
    assert text(20)[3:5] == ["│  ├─ wr…  ✓ done", "│  └─ ju…  ▸ running"]


@pytest.mark.parametrize("width", range(19, 160))
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    wide = Row(name="wide", state="running", text="日本語 👍🏽 é " * 40)
    for growing in (False, True):
        lines = frame([*ROWS, Row(name="w", text=wide.text, is_growing=growing)], width=width)
        assert max(cell_len("".join(piece for piece, _ in line)) for line in lines) <= width


def test_columns_that_are_empty_are_not_there() -> None:
    assert text_of(Row(name="a", kind="function", state="done", runs=1, text="x")) == [
        "agent  kind      state   last",
        "a      function  ✓ done  x",
    ]


def text_of(*rows: Row, width: int = 60, height: int | None = None) -> list[str]:
    return plain(frame(rows, width=width, height=height)).split("\n")


def test_of_a_growing_text_the_end_is_shown() -> None:
    long = "".join(f"word {i} " for i in range(100))
    [_, said] = text_of(Row(name="a", state="running", text=long, is_growing=True), width=40)
    assert said == "a      ▸ running  …rd 97 word 98 word 99"
    [_, said] = text_of(Row(name="a", state="done", text=long), width=40)
    assert said == "a      ✓ done  word 0 word 1 word 2 wor…"


def test_on_a_low_screen_only_agents_that_have_begun_are_shown() -> None:
    rows = [Row(name=f"a{i}", state="done" if i < 3 else "waiting") for i in range(43)]
    assert text_of(*rows, height=10) == [
        "agent  state",
        "a0     ✓ done",
        "a1     ✓ done",
        "a2     ✓ done",
        "… 40 more",
    ]


def test_on_a_lower_screen_ended_agents_give_way_to_those_that_run_ask_or_failed() -> None:
    states = ["done", "running", "done", "asks", "failed", "done", "done"]
    rows = [Row(name=f"a{i}", state=state) for i, state in enumerate(states)]  # type: ignore[arg-type]
    assert [row.partition(" ")[0] for row in text_of(*rows, height=6)] == [
        "agent",
        "a1",
        "a3",
        "a4",
        "a6",
        "…",
    ]


def test_a_text_can_neither_break_its_line_nor_steer_a_terminal() -> None:
    said = "one\ntwo\r\n\tthree \x1b[31mred\x1b[0m \x1b]0;title\x07\x1b[2J\x9b31m \a\u202eback"
    said += " [red]x[/red]"
    [_, line] = text_of(Row(name="a", state="done", text=said), width=80)
    assert line == "a      ✓ done  one two three red 31m back [red]x[/red]"


def test_texts_are_escaped_in_html() -> None:
    page = html(frame([Row(name="a", state="failed", text="<script>alert('&')</script>")], width=80))
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;" in page
    assert page.startswith("<pre ")
    assert 'style="color:#dc2626">✗ failed</span>' in page


def test_a_page_without_styles_has_the_lines_of_the_text() -> None:
    lines = frame(ROWS, width=100)
    bare = re.sub(r"<[^>]*>", "", html(lines))
    assert unescape(bare).rstrip("\n").split("\n") == plain(lines).split("\n")


def test_a_terminal_without_unicode_gets_letters_it_knows() -> None:
    row = Row(outline="└─ ", name="a", state="done", text="日本")
    assert plain(ascii_only(frame([row], width=60))) == "agent  state   last\n`- a   + done  ??"
    marked = ascii_only(frame([Row(name="a", state="running")], width=60, running=spinner(0.5)))
    assert plain(marked) == "agent  state\na      * running"


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (None, ""),
        (0, "0.0 s"),
        (59.9, "59.9 s"),
        (59.97, "1:00 min"),
        (64, "1:04 min"),
        (3599.9, "1:00 h"),
        (3725, "1:02 h"),
    ],
)
def test_times_are_for_people(seconds: float | None, shown: str) -> None:
    assert duration(seconds) == shown
