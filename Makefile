# `make demo` and `make test` do everything on a fresh machine with Python 3.11+.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test check lint format bench slow lowest torture docs dist clean

demo: $(STAMP)
	$(BIN)/semco demo

# With compiled files kept: otherwise every process that a test starts would compile the package again.
test: export PYTHONDONTWRITEBYTECODE =
test: $(STAMP)
	$(BIN)/python -m pytest

check: $(STAMP) lint test

lint: $(STAMP)
	$(BIN)/ruff check src tests scripts benchmarks
	$(BIN)/ruff format --check src tests scripts benchmarks
	$(BIN)/mypy

format: $(STAMP)
	$(BIN)/ruff check --fix src tests scripts benchmarks
	$(BIN)/ruff format src tests scripts benchmarks

slow: $(STAMP)
	$(BIN)/python -m pytest -m slow

# Tests with the lowest allowed versions of the dependencies, in an environment of its own. Their own warnings about what
# is newer than they are do not count.
LOWEST := .venv-lowest
lowest:
	test -x $(LOWEST)/bin/python || $(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/python -m pip install --quiet --constraint constraints-lowest.txt pytest pytest-xdist pytest-timeout \
		hypothesis --editable '.[pretrained,heic,onnx,openvino,serve,tensorboard]'
	$(LOWEST)/bin/python -m pytest -W default tests/config tests/data tests/labels tests/groups tests/models \
		tests/methods tests/run tests/evaluation tests/predict tests/report tests/export tests/cli tests/test_estimator.py

# Attacks the package for up to 20 minutes; every failure is shown with the command that repeats it.
# SEED=1 chooses other cases, N=10 ten times as many, MINUTES=60 more time, ONLY=images,vectors some attacks.
torture: $(STAMP)
	$(BIN)/python tests/torture/run.py $(if $(SEED),--seed $(SEED)) $(if $(N),--n $(N)) $(if $(ONLY),--only $(ONLY)) \
		$(if $(MINUTES),--minutes $(MINUTES)) $(if $(CASE),--case $(CASE)) $(if $(JSON),--json)

# Speed and memory of everything, in about 15 minutes on two cores; some: python -m benchmarks all --only step
bench: $(STAMP)
	mkdir -p build
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,bench]'
	$(BIN)/python -m benchmarks all --out build/growth.png

# The site, in build/site; a broken link or reference fails.
docs: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	$(BIN)/mkdocs build

# The wheel and the source archive, in dist/.
dist: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt build
	rm -rf dist
	$(BIN)/python -m build

# Installs once; again only when what is to be installed changed.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) $(LOWEST) build dist .pytest_cache .mypy_cache .ruff_cache
