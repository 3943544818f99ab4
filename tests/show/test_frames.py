"""Frames of the live tree at different widths and heights."""

import re
from html import unescape
from typing import Any

import pytest
from rich.cells import cell_len

from agentgraph.show.activity import Row
from agentgraph.show.screens import ascii_only, duration, frame, html, plain, spinner

DRAFT = "A draft about bees, which hum in many keys and have six legs and two pairs of wings."


def row(outline: str, name: str, kind: str = "", state: Any = "waiting", **known: Any) -> Row:
    return Row(outline=outline, name=name, kind=kind, state=state, **known)


USED: Any = {"tokens_in": 1234, "tokens_out": 56}
ROWS = [
    row("", "report", "sequential", "running", runs=1, seconds=12.31, **USED),
    row("├─ ", "refine", "loop", "done", runs=1, iteration="2 of 5", seconds=64),
    row("│  ├─ ", "write", "chat", "done", runs=2, seconds=6, text=DRAFT, **USED),
    row("│  └─ ", "judge", "function", "running", runs=2, seconds=4, text="No."),
    row("├─ ", "boss", "human", "asks", runs=1, seconds=0, text="[asks] Print it?"),
    row("├─ ", "fax", "function", "failed", runs=1, seconds=1, text="[error] ValueError()"),
    row("├─ ", "post", "function", "stopped", runs=1, seconds=1),
    row("└─ ", "close", "function"),
]


def text(*rows: Row, width: int = 60, height: int | None = None) -> list[str]:
    return plain(frame(rows, width=width, height=height)).split("\n")


def test_with_room_all_columns_are_shown() -> None:
    assert text(*ROWS, width=90) == [
        "agent        kind        state      runs        time   tokens  last",
        "report       sequential  ▸ running            12.3 s  1.2k→56",
        "├─ refine    loop        ✓ done     2 of 5  1:04 min",
        "│  ├─ write  chat        ✓ done     2          6.0 s  1.2k→56  A draft about bees, which …",
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
    assert text(*ROWS, width=width)[0].split() == columns.split()


def test_names_are_cut_last() -> None:
    assert text(*ROWS, width=22)[3:5] == ["│  ├─ write  ✓ done", "│  └─ judge  ▸ running"]
    assert text(*ROWS, width=20)[3:5] == ["│  ├─ wr…  ✓ done", "│  └─ ju…  ▸ running"]


def test_no_line_is_wider_than_the_screen() -> None:
    for width in (*range(19, 60), *range(60, 160, 9)):
        for growing in (False, True):
            wide = row("", "w", text="日本語 👍🏽 é " * 40, is_growing=growing)
            lines = frame([*ROWS, wide], width=width)
            assert max(cell_len("".join(piece for piece, _ in line)) for line in lines) <= width


def test_columns_that_are_empty_are_not_there() -> None:
    assert text(row("", "a", "function", "done", runs=1, text="x")) == [
        "agent  kind      state   last",
        "a      function  ✓ done  x",
    ]


def test_of_a_growing_text_the_end_is_shown() -> None:
    long = "".join(f"word {i} " for i in range(100))
    [_, said] = text(row("", "a", "", "running", text=long, is_growing=True), width=40)
    assert said == "a      ▸ running  …rd 97 word 98 word 99"
    [_, said] = text(row("", "a", "", "done", text=long), width=40)
    assert said == "a      ✓ done  word 0 word 1 word 2 wor…"


def test_on_a_low_screen_only_agents_that_have_begun_are_shown() -> None:
    rows = [row("", f"a{i}", "", "done" if i < 3 else "waiting") for i in range(43)]
    assert text(*rows, height=10) == [
        *["agent  state", "a0     ✓ done", "a1     ✓ done", "a2     ✓ done", "… 40 more"]
    ]


def test_on_a_lower_screen_ended_agents_give_way_to_those_that_run_ask_or_failed() -> None:
    states = ["done", "running", "done", "asks", "failed", "done", "done"]
    rows = [row("", f"a{i}", "", state) for i, state in enumerate(states)]
    assert [line.split()[0] for line in text(*rows, height=6)] == ["agent", "a1", "a3", "a4", "a6", "…"]


def test_a_text_can_neither_break_its_line_nor_steer_a_terminal() -> None:
    said = "one\ntwo\r\n\tthree \x1b[31mred\x1b[0m \x1b]0;title\x07\x1b[2J\x9b31m \a\u202eback"
    [_, line] = text(row("", "a", "", "done", text=f"{said} [red]x[/red]"), width=80)
    assert line == "a      ✓ done  one two three red 31m back [red]x[/red]"


def test_a_page_has_the_lines_of_the_text_with_styles_and_escaped() -> None:
    page = html(frame([row("", "a", "", "failed", text="<script>alert('&')</script>")], width=80))
    assert "<script" not in page
    assert "&lt;script&gt;alert(&#x27;&amp;&#x27;)&lt;/script&gt;" in page
    assert page.startswith("<pre ")
    assert 'style="color:#dc2626">✗ failed</span>' in page
    lines = frame(ROWS, width=100)
    bare = re.sub(r"<[^>]*>", "", html(lines))
    assert unescape(bare).rstrip("\n").split("\n") == plain(lines).split("\n")


def test_a_terminal_without_unicode_gets_letters_it_knows() -> None:
    done = row("└─ ", "a", "", "done", text="日本")
    assert plain(ascii_only(frame([done], width=60))) == "agent  state   last\n`- a   + done  ??"
    running = frame([row("", "a", "", "running")], width=60, running=spinner(0.5))
    assert plain(ascii_only(running)) == "agent  state\na      * running"


SHOWN = {
    **{None: "", 0: "0.0 s", 59.9: "59.9 s", 59.97: "1:00 min", 64: "1:04 min"},
    **{3599.9: "1:00 h", 3725: "1:02 h"},
}


def test_times_are_for_people() -> None:
    assert {seconds: duration(seconds) for seconds in SHOWN} == SHOWN
