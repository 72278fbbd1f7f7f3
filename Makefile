# Two commands matter: `make demo` and `make test`. Each sets up .venv by itself, once.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
# Two test workers share the cores; OpenMP threads that spin for each other would only slow them down.
TEST_ENV := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false

.PHONY: help setup demo test test-all lint format bench clean

help:
	@echo "make demo   install, run the main job on the bundled model, show a report"
	@echo "make test   install and run the tests"
	@echo "make lint   ruff, mypy, import-linter"
	@echo "make bench  speed, as ratios measured side by side"

setup: $(READY)

# torch is pinned in constraints.txt: installing it first and by itself keeps pip from choosing a CUDA build.
$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed, this is " + sys.version.split()[0])'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt "$$(grep -i '^torch==' constraints.txt)"
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(READY)

demo: $(READY)
	$(BIN)/lacuna demo --into demo

test: $(READY)
	$(TEST_ENV) $(BIN)/python -m pytest -n 2

test-all: $(READY)
	$(TEST_ENV) $(BIN)/python -m pytest -m 'network or slow or not network'

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY)
	$(BIN)/python benchmarks/train.py
	$(BIN)/python benchmarks/build.py
	$(BIN)/python benchmarks/translate.py

clean:
	rm -rf $(VENV) build demo .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
