"""Checks one saver, in the environment of its package, and prints the report as JSON."""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import makers

from agentgraph.testing import check_saver

if __name__ == "__main__":
    report = check_saver(getattr(makers, sys.argv[1]))
    rows = {row.name: None if row.works is None else row.reason for row in report}
    modes = " and ".join(report.modes)
    made = {"name": report.saver, "package": report.package, "version": report.version, "results": rows}
    print("REPORT", json.dumps({**made, "modes": modes}))
