"""The prose uses the standard terms of the field, not our own words."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers.prose import READERS, prose

ROOT = Path(__file__).parent.parent
GONE = {
    r"\b(told|tells)\b": "emitted, yielded, shown; returns",
    r"\bvoid(ed|s)?\b|thrown away|throws? away": "discarded",
    r"\b(un)?hea(rd|rs)\b": "received",
    r"\black(s|ed|ing)?\b": "missed, missing",
    r"\bunder way\b|\bin flight\b": "running, active, in progress",
    r"\banew\b": "again, from scratch, a new",
    r"\b(go(es)?|went|going) on\b": "continues, resumes",
    r"\bbesides?\b|side by side": "next to, in parallel, in addition to",
    r"\b(mend(s|ed)?|settled?|salvaged?)\b": "fixed, resolved, recovered",
    r"\bfor good\b|\bin vain\b|\bby turns\b": "permanently, without effect, alternately",
    r"\b(laid|lays?|lain|lay)[ -]flat": "flattened",
    r"\bhops?\b|\bhand(s|ed|ing)?[ -]over": "transfer, handoff",
    r"\bforeign\b": "a LangGraph graph",
    r"\b(stands?|stood|standing)\b(?!-in)": "is, appears",
    r"(?<!there )\b(is|are|was|be) no (?!longer|more|less|such)": "is not a",
    r"\bis none of\b": "is not one of",
    r"there are: ": "available: , choose one of: ",
    r"\bstranger": "untrusted",
    r"\bof (ours|yours|(its|their|his|your|our|one's|my) own)\b": "its own, our, your before the noun",
    r"(?:^|[.:;] )(What|Who|Whoever|Whose|That of|Those of) [^?]*$": "a noun as the subject",
    r"\b(Return|Yield|Give|Say|Tell) (what|who)\b": "the name of what is returned",
    r"\bglances?\b": "summary",
    r"\b(nobody|somebody|no one|whoever)\b": "a person, a caller, the passive",
    r"\b(gives|gave)\b": "returns, yields, provides",
    r"\b(speaks?|spoke)\b": "emits, writes, replies",
    r"\b(refuse[sd]?|refusing|admit(s|ted)?)\b": "reject, raise; accept",
    r"\bborders?\b": "boundary",
    r"\blosers?\b": "losing branch",
    r"\bwish(es)?\b": "request",
    r"\bbehind\b": "after",
    r"\blit\b": "highlighted",
    r"\bmoments?\b": "order, time",
    r", for (it|they|this|that|these|those|there|no|who|what|one)\b": "because",
}
"""Patterns of words, and what to write in their place."""
DOCS = (
    "docs/*.md",
    "docs/concepts/",
    "docs/extensions/",
    "docs/guides/",
    "docs/migrate/",
    "docs/reference/",
)
PARTS = (
    *DOCS,
    "agentgraph/*.py",
    *(f"agentgraph/{path.parent.name}/" for path in sorted(ROOT.glob("agentgraph/*/__init__.py"))),
    "examples/",
    "notebooks/",
    *(
        f"tests/{name}/"
        for name in ("agents", "guarded", "guides", "helpers", "mutants", "skills", "tree", "web")
    ),
    "*.md",
)


def files(part: str) -> Iterator[Path]:
    """Yield the files of a part that have prose."""
    found = ROOT.glob(f"{part}**/*" if part.endswith("/") else part)
    yield from (path for path in sorted(found) if path.suffix in READERS)


def gone_words(file: Path) -> Iterator[str]:
    """Yield each word that should not be in a file, where it is, and the word to write."""
    for line, text in prose(file):
        for pattern, instead in GONE.items():
            for found in re.finditer(pattern, text, re.MULTILINE):
                yield f"{file.relative_to(ROOT)}:{line}: {found[0]!r}; write: {instead}"


@pytest.mark.parametrize("part", PARTS)
def test_the_prose_has_no_words_of_our_own(part: str) -> None:
    assert [each for file in files(part) for each in gone_words(file)] == []


def test_a_word_that_is_gone_is_found_in_each_kind_of_file(tmp_path: Path) -> None:
    cell = '{"cells": [{"cell_type": "markdown", "source": ["An event is told."]}]}'
    texts = {
        ".py": '"""An event is told."""\n',
        ".md": "An event is told.\n```\nnot told\n```\n",
        ".ipynb": cell,
        ".js": "// An event is told.\n",
    }
    for suffix, text in texts.items():
        file = tmp_path / f"page{suffix}"
        file.write_text(text)
        found = [word for _, text in prose(file) for word in re.findall(r"\btold\b", text)]
        assert (suffix, found) == (suffix, ["told"])


if __name__ == "__main__":
    import sys

    for argument in sys.argv[1:]:
        for file in files(argument) if argument in PARTS else [ROOT / argument]:
            print(*gone_words(file), sep="\n")
