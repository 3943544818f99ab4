"""Tests of the pages that need a newer LangChain than the lowest one are collected if it is there."""

from importlib.util import find_spec

collect_ignore = [] if find_spec("langchain.agents.middleware.auto_mode") else ["test_risk.py"]
