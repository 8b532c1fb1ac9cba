# Every verb of the project. The work itself is done in Python (ops/), not here.

PYTHON ?= python3.11
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-jvm test-cluster test-all lint format bench bench-quick \
  up down package lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /|/' | awk -F'|' '{printf "  make %-13s %s\n", $$1, $$2}'

setup: ## install into .venv and build/; does nothing when nothing changed
	@$(PYTHON) -m ops.setup

demo: setup ## an ungated join and ours side by side, on real Kafka and Flink; a few minutes
	@$(BIN)/tablegate demo

# In the order of what they cost, so that a mistake shows after seconds and not after minutes.
test: setup ## every test and check; the fast ones first
	@$(MAKE) --no-print-directory test-fast
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory test-jvm
	@$(MAKE) --no-print-directory test-cluster

test-fast: setup ## tests that start no JVM; seconds
	@$(BIN)/pytest -q -m "not jvm and not cluster"

test-jvm: setup ## tests that start a JVM of their own
	@$(BIN)/pytest -q -m "jvm and not cluster"

test-cluster: setup ## tests on a real broker and a real Flink cluster
	@$(BIN)/pytest -q -m "cluster and not full"

test-all: setup ## what CI runs, and what is too slow for it
	@$(MAKE) --no-print-directory test
	@$(BIN)/pytest -q -m full

lint: setup ## ruff, mypy and the import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache

format: setup ## let ruff rewrite what it can
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: setup ## ours and what people would use instead, and how each grows; many hours
	@$(BIN)/python -m bench.versus
	@$(BIN)/python -m bench.growth

bench-quick: setup ## the same reduced: minutes, one JSON line for each measure
	@$(BIN)/python -m bench.versus --quick

up: setup ## start Kafka and Flink on free ports, in build/stack
	@$(BIN)/tablegate up

down: setup ## stop what `make up` started
	@$(BIN)/tablegate down

package: setup ## write build/tablegate-udfs.zip for `flink run -pyfs`
	@$(BIN)/tablegate package

# No index address in the file: whoever installs brings their own, and the hashes keep it honest.
lock: setup ## remake requirements.lock from pyproject.toml
	@$(BIN)/uv pip compile pyproject.toml --extra dev --python-version 3.11 --quiet \
	  --generate-hashes --no-emit-index-url --custom-compile-command "make lock" \
	  --output-file requirements.lock

clean: ## stop the stack and delete .venv, build and caches
	@if [ -x $(BIN)/tablegate ]; then $(BIN)/tablegate down; fi
	rm -rf .venv build .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis *.egg-info
