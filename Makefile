# `make demo` and `make test` do everything on a fresh machine with Python 3.11+.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check lint format bench slow clean

demo: $(STAMP)
	$(BIN)/semco demo

test: $(STAMP)
	$(BIN)/python -m pytest

check: $(STAMP) lint test

lint: $(STAMP)
	$(BIN)/ruff check src tests scripts
	$(BIN)/ruff format --check src tests scripts
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix src tests scripts
	$(BIN)/ruff format src tests scripts

slow: $(STAMP)
	$(BIN)/python -m pytest -m slow

bench: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,bench]'
	$(BIN)/semco bench augment
	$(BIN)/semco bench step
	$(BIN)/semco bench scale
	$(BIN)/semco bench labels

# Installs once; again only when what is to be installed changed.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache
