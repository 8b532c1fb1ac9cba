# Every verb of the project. The work itself is done in Python (ops/), not here.

PYTHON ?= python3.11
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /|/' | awk -F'|' '{printf "  make %-8s %s\n", $$1, $$2}'

setup: ## install into .venv and build/; does nothing when nothing changed
	@$(PYTHON) -m ops.setup
