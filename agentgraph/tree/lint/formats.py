"""Findings in the forms that other programs read: JSON, and SARIF for code hosts and editors."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from hashlib import sha256
from typing import Any
from urllib.parse import quote

from agentgraph.tree.lint.findings import KINDS, PROBLEMS, Finding

Data = dict[str, Any]
"""A JSON object."""
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def as_data(findings: Iterable[Finding]) -> list[Data]:
    """Return the fields of findings, and their texts, as JSON data."""
    return [{**asdict(each), "way": [*each.way], "text": str(each)} for each in findings]


def as_sarif(
    findings: Iterable[Finding], file: str, version: str, line_of: Callable[[str], int]
) -> Data:
    """Return a SARIF log of version 2.1.0.

    Args:
        findings: The findings of a tree.
        file: The path of the tree's file, relative to the folder of the project.
        version: The version of this package.
        line_of: Returns the line of the agent at an address, from 1.
    """
    rules = [{"id": kind, "shortDescription": {"text": _description(kind)}} for kind in KINDS]
    driver = {"name": "agentgraph", "version": version, "rules": rules}
    place = partial(_location, uri=quote(file, safe="/:"), line_of=line_of)
    results = [_result(each, place) for each in findings]
    return {
        "$schema": _SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _description(kind: str) -> str:
    text = PROBLEMS[kind].format(name="NAME")
    return f"{text[0].upper()}{text[1:]}."


def _result(finding: Finding, place: Callable[[str], Data]) -> Data:
    identity = "\n".join((finding.kind, finding.address, finding.name))
    return {
        "ruleId": finding.kind,
        "ruleIndex": KINDS.index(finding.kind),
        "level": "warning",
        "message": {"text": str(finding)},
        "locations": [place(finding.address)],
        "partialFingerprints": {"agentgraph/v1": sha256(identity.encode()).hexdigest()[:16]},
        **_flow(finding.way, place),
    }


def _location(address: str, uri: str, line_of: Callable[[str], int]) -> Data:
    region = {"startLine": line_of(address)}
    return {
        "physicalLocation": {"artifactLocation": {"uri": uri}, "region": region},
        "logicalLocations": [{"fullyQualifiedName": address, "name": address.rpartition("/")[2]}],
    }


def _flow(way: Sequence[str], place: Callable[[str], Data]) -> Data:
    if not way:
        return {}
    steps = [{"location": {**place(each), "message": {"text": each}}} for each in way]
    return {"codeFlows": [{"threadFlows": [{"locations": steps}]}]}
