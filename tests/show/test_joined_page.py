"""The page's modules joined into one, as a cell of a notebook takes it."""

import re
from collections import Counter

import pytest

from agentgraph.window.joined import IMPORT, PAGE, joined_modules, joined_styles, modules

TOP = re.compile(
    r"^(?:export )?(?:async )?(?:function\*?|const|let|class) (\w+|[{\[][^=]*[}\]](?= =))", re.MULTILINE
)
"""What is declared at the top of a module: a name, or a pattern with several."""
NAMES = sorted(path.name for path in PAGE.glob("*.js"))


def declared(text: str) -> list[str]:
    return [name for match in TOP.findall(text) for name in re.findall(r"\w+", match)]


def exported(text: str) -> set[str]:
    return set(
        re.findall(r"^export (?:async )?(?:function\*?|const|let|class) (\w+)", text, re.MULTILINE)
    )


def outermost(styles: str) -> list[str]:
    """Return what stands before each outermost block of style sheets."""
    found, depth, begin = [], 0, 0
    for at, character in enumerate(styles):
        if character == "{":
            found += [] if depth else [styles[begin:at].strip()]
            depth += 1
        elif character == "}":
            depth, begin = depth - 1, at + 1
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_module_keeps_to_the_forms_that_can_be_joined(name: str) -> None:
    text = (PAGE / name).read_text()
    lines = text.splitlines()
    imports = sum(line.startswith("import") for line in lines)
    assert imports == len(IMPORT.findall(text))
    assert sum(line.startswith("export") for line in lines) == len(exported(text))
    assert [word for word in ("import(", "import.meta", "innerHTML", "eval(") if word in text] == []


@pytest.mark.parametrize("name", NAMES)
def test_what_a_module_imports_is_exported_there(name: str) -> None:
    for names, other in IMPORT.findall((PAGE / name).read_text()):
        wanted = set(re.findall(r"\w+", names))
        assert wanted <= exported((PAGE / other).read_text()), other


def test_no_name_is_declared_at_the_top_of_two_modules() -> None:
    counts = Counter(name for path in PAGE.glob("*.js") for name in declared(path.read_text()))
    assert [name for name, count in counts.items() if count > 1] == []
    assert len(counts) > 20


def test_a_module_comes_after_all_that_it_needs() -> None:
    order = list(modules())
    for name, text in modules().items():
        for _, other in IMPORT.findall(text):
            assert order.index(other) < order.index(name), f"{name} needs {other}"
    assert order[-1] == "cell.js"


def test_the_joined_module_has_all_and_imports_nothing() -> None:
    joined = joined_modules()
    lines = joined.splitlines()
    assert [line for line in lines if line.startswith(("import", "export"))] == [
        "export default {render: renderCell};"
    ]
    assert sorted(declared(joined)) == sorted(n for text in modules().values() for n in declared(text))


def test_the_styles_are_all_below_the_window_or_its_cell() -> None:
    text = re.sub(r"/\*.*?\*/", "", joined_styles(), flags=re.DOTALL)
    assert "@import" not in text
    assert "url(" not in text
    own = (".agentgraph-window", ".agentgraph-cell", "body.agentgraph-window", "@")
    assert [each for each in outermost(text) if not each.startswith(own)] == []
