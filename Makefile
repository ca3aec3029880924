# Every habit has one command here, the same for people, hooks and CI. Needs make and Python >= 3.11.
# All recipes set themselves up; PYTHON=/path/to/python3.12 chooses another interpreter.

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory
# Tests start hundreds of programs: without bytecode each compiles all its imports again.
unexport PYTHONDONTWRITEBYTECODE

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
PIP := $(RUN) infra/pip_progress.py
RUNTIME := $(VENV)/runs
STAMP := $(VENV)/installed
BENCH_LINES := .run/benchmarks/figures.jsonl

.PHONY: help install format lint types arch test test-quick test-wide test-integration test-long test-changes test-browser test-floors test-e2e schemas chart lock \
	up down console demo recording chaos storms simulate cluster alerts autoscaling group-limits compose fuzz bench test-upgrade soak bench-docs survey check clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-17s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(STAMP)  ## Make .venv with everything in it (all other targets do it by themselves)

# What runs, without what checks and tests: half the size, and all that `make up` needs.
$(RUNTIME): Makefile pyproject.toml contracts/pyproject.toml requirements-pip.lock requirements-run.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "answerbus needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1):" \
			"install one, or name it: make $(firstword $(MAKECMDGOALS)) PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { \
		echo "'$(PYTHON)' lacks the modules that make virtual environments:" \
			"on Debian and Ubuntu, apt-get install python3-venv"; exit 1; }
	@echo "Setting up $(VENV) (once; the first time this downloads about 85 MB)"
	@test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	@# The pip of older Pythons takes twice as long for the rest.
	@$(PIP) install --require-hashes --no-deps --no-compile --requirement requirements-pip.lock
	@$(PIP) install --require-hashes --no-deps --no-compile --requirement requirements-run.lock
	@# As plain paths: type checkers do not run the import hook that is the default.
	@$(PIP) install --no-deps --no-build-isolation --config-settings editable_mode=compat \
		--editable './contracts[client]' --editable '.[demo]'
	@$(PIP) check
	@touch $@

$(STAMP): $(RUNTIME) requirements.lock
	@echo "Adding what checks and tests need (once; the first time this downloads about 170 MB)"
	@$(PIP) install --require-hashes --no-deps --no-compile --requirement requirements.lock
	@$(PIP) check
	@test ! -e .git || git config core.hooksPath infra/hooks
	@touch $@

format: install  ## Format the code, and fix what ruff can fix
	@$(RUN) -m ruff check --fix-only --quiet
	@$(RUN) -m ruff format

lint: install  ## Ruff: rules and shape
	@$(RUN) -m infra.checks lint shape

types: install  ## mypy --strict over code and tests
	@$(RUN) -m infra.checks types

arch: install  ## Who may import whom (import-linter)
	@$(RUN) -m infra.checks arch

test: install  ## Everything there is, cheapest first; starts its own Kafka and its own model
	@$(RUN) -m infra.checks

test-quick: install  ## The tests of every day, without broker, model and network (one to two minutes)
	@$(RUN) -m infra.checks quick

test-wide: install  ## Much data, thousands of faults, and the providers' SDKs over HTTP
	@$(RUN) -m infra.checks wide

test-integration: install  ## The tests on a real Kafka (KAFKA_BOOTSTRAP_SERVERS names another one)
	@$(RUN) -m infra.checks integration

test-long: install  ## What takes minutes on a real Kafka, and `make test` leaves out
	@$(RUN) -m infra.checks long

test-changes: install  ## Ten changes of newcomers, each made in a copy and checked; the rows of docs/architecture.md
	@$(RUN) -m infra.checks changes

test-browser: install  ## The console in a real Chromium, on a real Kafka; screenshots in .run/screenshots
	@$(RUN) -m infra.checks browser

test-floors: install  ## The tests of contracts and client with the oldest libraries that they take, on a real Kafka
	@$(RUN) -m infra.checks floors

test-e2e: install  ## The tests that ask the real local model
	@$(RUN) -m infra.checks e2e

schemas: install  ## Write contracts/schemas and contracts/asyncapi.json from the types
	@$(VENV)/bin/answerbus contracts export contracts/schemas
	@$(VENV)/bin/answerbus contracts asyncapi contracts/asyncapi.json

chart: install  ## Write what the Helm chart and docker-compose.yml repeat: topics, rights, alerts, dashboard
	@$(RUN) -m infra.chart_files
	@$(RUN) -m infra.docker_rights

lock:  ## Write requirements.lock and its parts from constraints.txt, and requirements-floors.lock: the SHA-256 of each file
	@test -x $(VENV)/bin/uv || $(MAKE) install  # not with every change: without the lock it would fail
	@$(VENV)/bin/uv pip compile constraints.txt --quiet --no-config --system-certs --universal \
		--python-version 3.11 --no-deps --generate-hashes --upgrade --no-annotate \
		--custom-compile-command "make lock" --output-file requirements.lock
	@$(RUN) -m infra.run_lock
	@$(VENV)/bin/uv pip compile contracts/pyproject.toml --all-extras --resolution lowest-direct \
		--quiet --no-config --system-certs --universal --python-version 3.11 --generate-hashes \
		--upgrade --no-annotate --custom-compile-command "make lock" --output-file requirements-floors.lock

up: $(RUNTIME)  ## Start broker, model and two workers in the background; KAFKA_PORT=0 MODEL_PORT=0 take free ports
	@$(RUN) -m infra.stack up $(if $(KAFKA_PORT),--kafka-port $(KAFKA_PORT)) \
		$(if $(MODEL_PORT),--model-port $(MODEL_PORT))

down: $(RUNTIME)  ## Stop what `make up` has started; the data stay
	@$(RUN) -m infra.stack down

console: $(RUNTIME)  ## Operators' pages of what `make up` has started, until Ctrl-C
	@$(VENV)/bin/answerbus console --config .run/answerbus.toml

demo: $(RUNTIME)  ## Real requests through a real Kafka to a real model, live; nothing stays running
	@$(RUN) -m infra.demo

recording: $(RUNTIME)  ## Write docs/demo.svg: the board of `make demo` as it was over time
	@$(RUN) -m infra.demo docs/demo.svg

chaos: install  ## Faults at seeded times on a real Kafka, then an audit; REQUESTS=10000 BROKERS=3 HOSTILE=1 RUNS=1 DIES=20
	@for seed in $(or $(SEED),$(SEEDS),1 2 3 4 5); do \
		$(RUN) -m tests.chaos.run --seed $$seed \
			--requests $(or $(REQUESTS),$(if $(filter 1,$(RUNS)),2000,10000)) \
			$(if $(BROKERS),--brokers $(BROKERS)) $(if $(filter 1,$(HOSTILE)),--hostile) \
			$(if $(filter 1,$(RUNS)),--runs) $(if $(DIES),--dies $(DIES)) || exit $$?; done

storms: install  ## Requests of transactions held, dropped, repeated, cut off before three brokers; SEEDS=200
	@$(RUN) -m tests.storms.run --seeds $(or $(SEEDS),200)

simulate: install  ## Seeded histories of the lanes on a virtual clock; HISTORIES=10000 SEED=0; AGENTS=1 with runs
	@$(RUN) -m tests.simulation --histories $(or $(HISTORIES),10000) --seed $(or $(SEED),0) \
		--processes $(or $(PROCESSES),2) $(if $(filter 1,$(AGENTS)),--runs)

cluster: install  ## Three brokers: each dies under load, two for a minute; then three secured ones (6 minutes)
	@$(RUN) -m pytest -q tests/integration/test_cluster.py
	@$(RUN) -m tests.compose.run cluster

alerts: install  ## Each alert made to fire by a fault, its runbook followed, and resolved, in a real Prometheus (8 minutes)
	@$(RUN) -m tests.alerts.run

autoscaling: install  ## 1 to 4 to 1 workers under a wave of load, as the chart's autoscaler does it (2 minutes)
	@$(RUN) -m tests.autoscaling.run

group-limits: install  ## 600 requests a minute, with 1 to 4 to 1 workers, by the provider's own notes (5 minutes)
	@$(RUN) -m tests.autoscaling.rates

compose: install  ## docker-compose.yml without an engine: its own commands, answers, spans, metrics (3 minutes; needs Go)
	@$(RUN) -m tests.compose.run

fuzz: install  ## Inputs made by a coverage-guided fuzzer, for MINUTES=1; what it keeps is a test. TARGET=cost: the costliest ones
	@$(RUN) -m tests.fuzz$(if $(filter cost,$(TARGET)),.cost) $(if $(filter-out cost,$(TARGET)),--only $(TARGET)) \
		--seconds $$(( $(or $(MINUTES),1) * 60 )) --keep

bench: install  ## Figures beside a plain loop, as JSON lines; ONLY=efficiency,latency SIZE=small SEED=1; TLS=1: also with calls over TLS; VERSIONS=9fd7cacf: beside versions out of the history
	@$(RUN) -m tests.benchmarks $(if $(ONLY),--only $(ONLY)) $(if $(TLS),--tls) $(if $(VERSIONS),--version $(VERSIONS)) --match "$(MATCH)" \
		--size $(or $(SIZE),full) --seed $(or $(SEED),1) --out $(BENCH_LINES)

test-upgrade: install  ## Workers of this version beside those of OLD=a2f2ce1, out of the history
	@OLD_VERSION=$(or $(OLD),a2f2ce1) $(RUN) -m pytest -q tests/integration/test_upgrade.py

soak: install  ## A worker under load, for MINUTES=30: memory, files and tasks must stay flat; docs/soak/soak.svg
	@$(RUN) -m tests.benchmarks.soak --minutes $(or $(MINUTES),30)

bench-docs: install  ## docs/benchmarks.md from the lines of `make bench`
	@$(RUN) -m tests.benchmarks.report $(BENCH_LINES)

survey: install  ## Ask the real local model about everything, write docs/model-survey.md; ONLY=mending
	@$(RUN) -m tests.model_survey $(if $(ONLY),--only $(ONLY))

check:  ## What CI runs
	@.ci/run

clean:  ## Stop the stack and remove all that was made here (.venv, .run, caches)
	@if test -f $(RUNTIME); then $(RUN) -m infra.stack down; fi
	@rm -rf $(VENV) .run .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@rm -rf *.egg-info contracts/*.egg-info build contracts/build
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
