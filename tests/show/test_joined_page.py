"""The page's modules joined into one, as a browser and a cell of a notebook take it."""

import re
from collections import Counter

import pytest

from agentgraph.window.joined import (
    ENTRY,
    IMPORT,
    PAGE,
    cell_module,
    joined_modules,
    joined_styles,
    modules,
)

TOP = re.compile(
    r"^(?:export )?(?:async )?(?:function\*?|const|let|class) (\w+|[{\[][^=]*[}\]](?= =))", re.MULTILINE
)
"""A declaration at the top of a module: a name, or a pattern with several."""
NAMES = sorted(path.name for path in PAGE.glob("*.js"))


def declared(text: str) -> list[str]:
    return [name for match in TOP.findall(text) for name in re.findall(r"\w+", match)]


def exported(text: str) -> set[str]:
    return set(
        re.findall(r"^export (?:async )?(?:function\*?|const|let|class) (\w+)", text, re.MULTILINE)
    )


def outermost(styles: str) -> list[str]:
    """Return the selector of each outermost block of style sheets."""
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


@pytest.mark.parametrize("entry", ["start.js", ENTRY])
def test_a_module_comes_after_all_that_it_needs(entry: str) -> None:
    order = list(modules(entry))
    for name, text in modules(entry).items():
        for _, other in IMPORT.findall(text):
            assert order.index(other) < order.index(name), f"{name} needs {other}"
    assert order[-1] == entry


@pytest.mark.parametrize("entry", ["start.js", ENTRY])
def test_the_joined_module_has_all_and_imports_nothing(entry: str) -> None:
    joined = joined_modules(entry)
    assert [line for line in joined.splitlines() if line.startswith(("import", "export"))] == []
    names = [name for text in modules(entry).values() for name in declared(text)]
    assert sorted(declared(joined)) == sorted(names)


def test_the_module_of_a_cell_exports_what_anywidget_takes() -> None:
    assert cell_module().endswith("\nexport default {render: renderCell};\n")
    assert "renderCell" in declared(cell_module())


def test_the_styles_are_all_below_the_window_or_its_cell() -> None:
    text = re.sub(r"/\*.*?\*/", "", joined_styles(), flags=re.DOTALL)
    assert "@import" not in text
    assert "url(" not in text
    own = (".agentgraph-window", ".agentgraph-cell", "body.agentgraph-window", "@")
    assert [each for each in outermost(text) if not each.startswith(own)] == []
