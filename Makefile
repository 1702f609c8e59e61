# `make demo` is the whole thing, from a fresh checkout to a held-out score. It needs Python 3.11 and a package index.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test kubernetes test-kubernetes test-fleet images test-compose test-long test-harnesses test-fast check conformance mini bench-gateway bench-collector bench-orchestrator bench-trainer bench-synth chaos docs clean

SEED ?= 0
REWARD ?= verifier
MODE ?= record
STEPS ?=
PROGRAMS ?= mini claude codex pi browser-use
CONFORM ?= claude,codex,pi,mini
ARGS ?=
BIN := .venv/bin

# Tests, and how they are spread. Those that fail are run once more, by themselves: a few hundred processes are killed in a run, and
# now and then one is late. What fails twice fails, and the first failure stands in the output.
define pytest
$(BIN)/python -m pytest $(1) $(2) || { [ $$? -eq 1 ] && echo "once more, what failed:" && \
  $(BIN)/python -m pytest $(1) --last-failed --last-failed-no-failures none; }
endef

help: ## list what there is
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## make .venv with everything pinned; again: only after a pin changed
	@scripts/setup.sh

demo: setup ## train the example agent (SEED=0 HARNESS=mini REWARD=coin MODE=splice STEPS=9 ARGS="--set a.b=c")
	@exec $(BIN)/python -m examples.lookup.demo --seed $(SEED) --reward $(REWARD) --mode $(MODE) $(if $(HARNESS),--harness $(HARNESS)) $(if $(STEPS),--steps $(STEPS)) $(ARGS)

test: setup mini check docs ## checks and tests, with real engines and servers
	@$(call pytest,tests/unit tests/contract -m "not harness and not fleet and not long",-n auto --dist loadfile)
	@$(call pytest,tests/hostile tests/e2e -m "not harness and not fleet and not long and not compose",-n 2 --dist loadfile --no-loadscope-reorder)

test-long: setup ## tests that take many minutes each: real engines killed in every phase of a push; learners on Ray
	@$(BIN)/python -m pytest tests/contract tests/e2e -m long

kubernetes: ## build a small real Kubernetes from Debian's source, unless it is there (minutes; Debian 12)
	@scripts/kubernetes.sh build

test-kubernetes: setup kubernetes ## tests with a real Kubernetes: control plane, node, pods (root; minutes)
	@$(call pytest,tests/contract tests/hostile tests/e2e -m "fleet and not harness",-n 2 --dist loadfile)

images: ## build the images that docker-compose.yml starts (a docker engine; minutes, 5 GB)
	@scripts/images.sh

test-compose: setup images ## start docker-compose.yml for real, train a step through it, kill a proxy and a collector
	@$(call pytest,tests/e2e -m compose)

test-fleet: test-kubernetes ## these, and tests that build images of harnesses (half an hour)
	@$(BIN)/python -m pytest tests/e2e -m "fleet and harness"

test-harnesses: setup ## installs Claude Code, Codex, pi and others, and tests with the real programs (PROGRAMS="claude codex")
	@$(BIN)/openforge harness install $(PROGRAMS)
	@$(BIN)/python -m pytest -m "harness and not fleet and not long"
	@$(BIN)/python -m tests.conformance --harness "$(CONFORM)" --mode splice

test-fast: setup ## unit tests that start nothing, on all cores, under a minute
	@$(BIN)/python -m pytest tests/unit -n auto --dist loadfile -m "not real and not slow" --hypothesis-profile=fast

conformance: MODE = splice
conformance: setup ## real harness programs through every scene (HARNESS=codex,pi SCENE=plain MODE=splice ARGS=--docs)
	@$(BIN)/python -m tests.conformance --harness "$(HARNESS)" --scene "$(SCENE)" --mode $(MODE) $(ARGS)

check: setup ## lint, format, types, import rules
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# Without this harness its tests skip, each by name.
mini: setup
	@$(BIN)/openforge harness install mini || echo "mini-swe-agent could not be installed; its tests will be skipped"

bench-gateway: setup ## what recording costs, beside rllm's gateway: one JSON object, exit 0 if the bounds hold (minutes)
	@exec $(BIN)/python -m tests.bench.gateway $(ARGS)

bench-collector: setup ## how fast a collector keeps and assembles what is recorded: one JSON object, exit 0 if the bounds hold
	@exec $(BIN)/python -m tests.bench.collector $(ARGS)

bench-orchestrator: setup ## what orchestrating pods costs, beside a bare loop: one JSON object, exit 0 if the bounds hold
	@exec $(BIN)/python -m tests.bench.orchestrator $(ARGS)

bench-trainer: setup ## what a training step costs beyond veRL's bare calls, and what a push costs: one JSON object, exit 0 if the bounds hold
	@exec $(BIN)/python -m tests.bench.trainer $(ARGS)

bench-synth: setup ## 60 proposals with defects planted, synth killed twice: is each caught by its gate? one JSON object, exit 0 if so (minutes)
	@exec $(BIN)/python -m tests.bench.synth $(ARGS)

chaos: setup ## everything is killed with -9, again and again: is anything lost or doubled? (minutes; ARGS="--seed 1 --rollouts 200")
	@exec $(BIN)/python -m tests.chaos $(ARGS)

# Not with -q: what is not shown is not counted, and the build passes.
docs: setup ## the documentation as a site in site/; a broken link or a page outside of the navigation is an error
	@$(BIN)/python -m pip install -q --no-deps --disable-pip-version-check -r requirements/docs.lock
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean: ## remove the environment and all caches of this folder; runs/ stays
	@rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build ./*.egg-info site
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
