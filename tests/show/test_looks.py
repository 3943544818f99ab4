"""How kinds look: different shapes and colours, readable on white and black; legends; directions."""

from itertools import combinations
from xml.etree import ElementTree

import pytest
from helpers import chat, says
from helpers.walking import par, rounds, seq
from langgraph.graph import START, MessagesState, StateGraph

import agentgraph as ag
from agentgraph.agents.kinds import KINDS as AGENT_KINDS
from agentgraph.agents.kinds import AgentKind
from agentgraph.show.drawing import mermaid, picture
from agentgraph.show.kinds import STYLES, appearance_of
from agentgraph.show.legend import legend
from agentgraph.show.styles import BOX, INK, LINE, LOOP, Style

KINDS = ("chat", "function", "person", "foreign", "switch", "swarm", "parallel", "workflow", "each")
SVG = "{http://www.w3.org/2000/svg}"


def luminance(colour: str) -> float:
    """Return the relative luminance of `#rrggbb`, as WCAG defines it."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize(("one", "other"), [*combinations(KINDS, 2)])
def test_two_kinds_differ_in_shape_and_in_colour(one: str, other: str) -> None:
    assert STYLES[one].shape != STYLES[other].shape
    assert STYLES[one].stroke != STYLES[other].stroke
    assert STYLES[one].fill != STYLES[other].fill


@pytest.mark.parametrize("kind", [*AGENT_KINDS])
def test_each_kind_of_agent_that_has_a_node_has_a_look(kind: AgentKind) -> None:
    assert (appearance_of(kind).style in STYLES) == AGENT_KINDS[kind].is_node


@pytest.mark.parametrize("look", [*STYLES.values()], ids=[*STYLES])
def test_text_is_dark_on_a_light_fill(look: Style) -> None:
    assert min(contrast(INK, look.fill), contrast(INK, look.box_fill)) > 7


@pytest.mark.parametrize("page", ["#ffffff", "#000000", "#1e1e1e"])
def test_edges_can_be_seen_on_any_page(page: str) -> None:
    assert min(contrast(LINE, page), contrast(LOOP, page)) > 3


@pytest.mark.parametrize("kind", [*KINDS, *(kind + BOX for kind in KINDS), "loop", "pale"])
def test_a_legend_has_an_entry_of_its_own_shape_for_each_kind(kind: str) -> None:
    entry, width, height = legend([kind], 0, 0, 100)
    (group,) = ElementTree.fromstring(entry).iter("text")
    assert group.text
    assert 0 < width < 420
    assert height > 24


def test_a_legend_wraps_into_rows() -> None:
    one, several = legend(KINDS[:2], 0, 0, 100), legend(KINDS, 0, 0, 100)
    assert several[1] <= 420
    assert several[2] > one[2]
    assert legend([], 0, 0, 100) == ("", 0, 0)


def test_an_svg_has_a_legend_of_the_kinds_that_it_draws() -> None:
    tree = rounds(2, "again", says("write"), par("review", chat("legal"), says("press")))
    shown = picture(ag.compile_agent(tree))
    assert shown.kinds == ("chat", "function", "parallel_box", "loop")
    svg = ElementTree.fromstring(shown.svg())
    (group,) = [each for each in svg.iter(f"{SVG}g") if each.get("class") == "legend"]
    assert [text.text for text in group.iter(f"{SVG}text")] == [
        "chat",
        "function",
        "parallel",
        "↻ loop",
    ]
    low = max(float(text.get("y", 0)) for text in group.iter(f"{SVG}text"))
    _, _, width, height = map(float, svg.get("viewBox", "").split())
    assert low < height == float(svg.get("height", 0))
    assert width == float(svg.get("width", 0))


def direction(tree: ag.Agent) -> str:
    return mermaid(ag.compile_agent(tree)).splitlines()[0]


def test_a_chain_runs_from_left_to_right_where_it_fits() -> None:
    assert direction(seq("s", *(says(f"a{i}") for i in range(6)))) == "graph LR"
    assert direction(seq("s", *(says(f"a{i}") for i in range(12)))) == "graph TD"
    assert direction(seq("s", *(says(f"a{i}" + "x" * 40) for i in range(3)))) == "graph TD"


def test_a_box_is_as_wide_as_what_is_in_it() -> None:
    lanes = [seq(f"l{i}", *(says(f"l{i}_{j}") for j in range(3))) for i in range(2)]
    assert direction(par("p", *lanes)) == "graph LR"
    assert direction(
        seq("s", says("a"), par("p", *lanes), par("q", seq("c", *map(says, "defgh"))))
    ) == ("graph TD")
    many = [seq(f"l{i}", *(says(f"l{i}_{j}") for j in range(9))) for i in range(2)]
    assert direction(par("p", *many)) == "graph TD"


def test_what_fits_in_neither_direction_takes_the_narrower_one() -> None:
    wide = par("p", *(says(f"reviewer{i}") for i in range(20)))
    assert direction(seq("s", *(says("a" * 20 + str(i)) for i in range(4)), wide)) == "graph LR"


def test_langgraphs_own_drawing_stays_as_it_is() -> None:
    graph = ag.compile_agent(seq("s", says("a"), par("p", says("b"), chat("c"))))
    before = graph.get_graph(xray=True).draw_mermaid()
    picture(graph)
    assert graph.get_graph(xray=True).draw_mermaid() == before
    assert [kind for kind in STYLES if f":::{kind}" in before] == []


HOSTILE = [
    '"<script>alert(1)</script>',
    "</svg><img src=x onerror=alert(2)>",
    '%%{wrap}%% \\n "]',
    "1. $$x^2$$ & #quot; &lt;",
    "- `**b**` __i__",
    "🐝 größe",
    "click a href javascript",
    "x" * 5000,
]
"""Names of nodes."""
TAGS = """
svg style g rect path text tspan circle polygon marker defs filter feDropShadow linearGradient stop
"""


def test_hostile_names_are_only_text_in_an_svg_and_on_a_page() -> None:
    builder = StateGraph(MessagesState)
    for name in HOSTILE:
        builder.add_node(name, lambda state: state).add_edge(START, name)
    shown = picture(ag.compile_agent(ag.graph_agent("g", builder.compile())))
    svg = ElementTree.fromstring(shown.svg())
    texts = {"".join(text.itertext()).replace(" ", "") for text in svg.iter(f"{SVG}text")}
    assert {name.replace(" ", "") for name in HOSTILE[:-1]} <= texts
    assert max(len(text) for text in texts) == len("x" * 60 + "…")
    assert {each.tag.removeprefix(SVG) for each in svg.iter()} <= {*TAGS.split()}
    names = [name for each in svg.iter() for name in each.attrib]
    assert [name for name in names if name.startswith("on") or "href" in name] == []
    page = ElementTree.fromstring(shown.html("<script>alert(3)</script>").partition("\n")[2])
    outside = {each.tag for each in page.iter() if not each.tag.startswith(SVG)}
    assert outside == {"html", "head", "meta", "title", "style", "body", "h1", "p", "main"}
    assert [each.text for each in page.iter("p")] == ["<script>alert(3)</script>"]
