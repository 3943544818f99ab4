"""Which files know the kinds of agents: read from the source of a package, ours or a copy of it."""

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

FOLDERS = ("agents", "tree", "graph", "show", "skills")
"""The folders that treat kinds differently; each has a file `kinds.py`."""
UNIONS = ("Leaf", "Composite")


def members(package: Path) -> list[str]:
    """Return the classes of the kinds of agents: the members of `Leaf` and `Composite`."""
    unions = _assigned(package / "agents" / "agents.py", UNIONS)
    return [name.id for union in unions for name in ast.walk(union) if isinstance(name, ast.Name)]


def words(package: Path) -> list[str]:
    """Return the words for the kinds, which `LeafKind` and `CompositeKind` list."""
    literals = _assigned(package / "agents" / "kinds.py", ("LeafKind", "CompositeKind"))
    return [each for literal in literals for each in _texts(literal)]


def missing_rows(package: Path) -> list[str]:
    """Return each missing row of a `kinds.py`, such as `tree/kinds.py: echo`."""
    missing: list[str] = []
    for folder in FOLDERS:
        wanted = members(package) if folder == "agents" else words(package)
        rows = closed_match(package / folder / "kinds.py")
        missing += [f"{folder}/kinds.py: {each}" for each in wanted if each not in rows]
    return missing


def closed_match(file: Path) -> set[str]:
    """Return the classes and words that have a case in the match of a file.

    It is closed: if a kind has no case, type checkers report `assert_never`.
    """
    matches = [node for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.Match)]
    closed = [each for each in matches if "assert_never" in ast.unparse(each.cases[-1])]
    assert len(closed) == 1, f"{file} has {len(closed)} closed matches"
    patterns = [part for case in closed[0].cases for part in ast.walk(case.pattern)]
    classes = {ast.unparse(each.cls) for each in patterns if isinstance(each, ast.MatchClass)}
    values = {text for each in patterns if isinstance(each, ast.MatchValue) for text in _texts(each)}
    return classes | values


def questions(package: Path) -> Iterator[str]:
    """Yield where it is asked of which kind an agent is: `graph/compiler.py: isinstance(...)`."""
    known = {"InnerNode", "CheckedAgent", *UNIONS, *members(package)}
    kinds = set(words(package))
    for file in sorted(package.rglob("*.py")):
        where = file.relative_to(package).as_posix()
        for node in ast.walk(ast.parse(file.read_text())):
            if _asks_for_class(node, known) or _asks_for_word(node, kinds):
                yield f"{where}: {ast.unparse(node).partition(chr(10))[0]}"


def _asks_for_class(node: ast.AST, known: set[str]) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="isinstance" | "issubclass"), args=[_, classes]):
            return not known.isdisjoint(_names(classes))
        case ast.MatchClass(cls=kind):
            return not known.isdisjoint(_names(kind))
        case ast.Compare(left=left, comparators=others):
            return not known.isdisjoint(name for each in (left, *others) for name in _listed(each))
        case ast.Dict(keys=keys):  # a table by class
            return any(isinstance(each, ast.Name) and each.id in known for each in keys)
    return False


def _asks_for_word(node: ast.AST, kinds: set[str]) -> bool:
    match node:
        case ast.Compare(left=left, comparators=others):
            texts = {text for each in (left, *others) for text in _texts(each)}
            return not kinds.isdisjoint(texts) and "kind" in ast.unparse(node)
        case ast.Match(subject=subject, cases=cases):
            texts = {text for case in cases for text in _texts(case.pattern)}
            return not kinds.isdisjoint(texts) and "kind" in ast.unparse(subject)
        case ast.Dict(keys=keys):  # a table by word
            texts = {text for each in keys if each is not None for text in _texts(each)}
            return len(texts & kinds) > 1
    return False


def _assigned(file: Path, names: Collection[str]) -> list[ast.expr]:
    """Return the values that are assigned to names at the top of a file."""
    several = [each for each in ast.parse(file.read_text()).body if isinstance(each, ast.Assign)]
    return [each.value for each in several if ast.unparse(each.targets[0]) in names]


def _names(node: ast.AST) -> set[str]:
    """Return the last parts of the names in an expression: `ChatAgent` of `agents.ChatAgent`."""
    found = {each.attr for each in ast.walk(node) if isinstance(each, ast.Attribute)}
    return found | {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}


def _listed(node: ast.AST) -> set[str]:
    """Return the names that an operand is, or is a list of."""
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return {each.id for each in parts if isinstance(each, ast.Name)}


def _texts(node: ast.AST) -> Iterator[str]:
    for each in ast.walk(node):
        if isinstance(each, ast.Constant) and isinstance(each.value, str):
            yield each.value
