# The two main commands are `make demo` and `make test`. Each creates .venv if necessary.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
COMET := .venv-comet
COMET_READY := $(COMET)/.ready
# Two test workers share the cores; OpenMP threads waiting for each other would only slow them down.
TEST_ENV := OMP_NUM_THREADS=1 TOKENIZERS_PARALLELISM=false

.PHONY: help setup demo test test-all comet test-comet test-browser test-cluster lint format bench figures clean

help:
	@echo "make demo   install, run the main job on the bundled model, show a report"
	@echo "make test   install and run the tests"
	@echo "make comet  install COMET into an environment of its own, for lacuna evaluate --comet"
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

# COMET needs older versions of transformers and numpy than Lacuna; that numpy has no build for Python 3.13.
comet: $(COMET_READY)

$(COMET_READY): constraints-comet.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 12)) and "COMET needs Python 3.11 or 3.12, this is " + sys.version.split()[0] + "; say make comet PYTHON=python3.12")'
	test -x $(COMET)/bin/python || $(PYTHON) -m venv $(COMET)
	$(COMET)/bin/python -m pip install -q --disable-pip-version-check -c constraints-comet.txt "$$(grep -i '^torch==' constraints-comet.txt)"
	$(COMET)/bin/python -m pip install -q --disable-pip-version-check -c constraints-comet.txt setuptools unbabel-comet
	touch $(COMET_READY)

demo: $(READY)
	$(BIN)/lacuna demo --into demo

test: $(READY)
	$(TEST_ENV) $(BIN)/python -m pytest -n 2 --durations=100 --durations-min=1

test-all: $(READY)
	$(TEST_ENV) $(BIN)/python -m pytest -m 'not comet and not browser and not cluster'

test-comet: $(READY) $(COMET_READY)
	$(TEST_ENV) LACUNA_COMET_PYTHON=$(CURDIR)/$(COMET)/bin/python $(BIN)/python -m pytest -m comet tests/unit/evaluation

# The page of `lacuna serve`, in a real browser: Chromium of the system, or the one that CHROMIUM names.
CHROMIUM ?= /usr/bin/chromium
test-browser: $(READY)
	@test -x "$(CHROMIUM)" || { echo "no Chromium at $(CHROMIUM): apt-get install chromium, or say make test-browser CHROMIUM=PATH"; exit 2; }
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[browser]'
	$(TEST_ENV) CHROMIUM=$(CHROMIUM) $(BIN)/python -m pytest -m browser tests/browser

# Dask on this machine, Milvus Lite, and a real Milvus server, which needs the ports 2379 and 2380.
test-cluster: $(READY)
	$(BIN)/python -m pip install -q --disable-pip-version-check -c constraints.txt -e '.[cluster,milvus]' milvus
	$(TEST_ENV) $(BIN)/python -m pytest -m cluster tests/cluster

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The benchmarks need the texts of the demo, and memories, which are made once; `rm -rf demo bench` removes them.
# `make bench MODEL=FOLDER TEST=CORPUS [MEMORY=STORE COMBINER=FOLDER]` measures your own model as well.
demo/report.json:
	$(MAKE) demo

bench/adaptive: $(READY) demo/report.json
	mkdir -p bench
	$(BIN)/lacuna build demo/sample/train.tsv --no-clean --languages de-en --into bench/store
	$(BIN)/lacuna index bench/store
	$(BIN)/lacuna margin bench/store
	test -d bench/pruned || $(BIN)/lacuna prune bench/store --min-margin 16 --ratio 1 --clamp --into bench/pruned
	test -d bench/adaptive-pruned || \
		$(BIN)/lacuna fit adaptive demo/sample/dev.tsv --memory bench/pruned --k 8 --into bench/adaptive-pruned
	$(BIN)/lacuna fit adaptive demo/sample/dev.tsv --memory bench/store --k 8 --gate --into bench/adaptive

bench: $(READY) bench/adaptive
	$(BIN)/python benchmarks/bench.py --test demo/corpus/test.tsv --memory bench/store --combiner bench/adaptive \
		--pruned bench/pruned --pruned-combiner bench/adaptive-pruned --sentences 192
ifdef MODEL
	$(BIN)/python benchmarks/bench.py --model $(MODEL) --test $(TEST) $(if $(MEMORY),--memory $(MEMORY) --combiner $(COMBINER))
endif
	$(BIN)/python benchmarks/bench.py --test demo/corpus/test.tsv --equal 500
	$(BIN)/python benchmarks/sizes.py bench/store --combiner bench/adaptive --test demo/corpus/test.tsv
	$(BIN)/python benchmarks/build.py
	$(BIN)/python benchmarks/margin.py bench/store
	$(BIN)/python benchmarks/fit.py demo/corpus/dev.tsv --memory bench/store
	$(BIN)/python benchmarks/train.py
	$(BIN)/python benchmarks/busy.py

# The two figures of README: `make figures OUT=FOLDER`, where FOLDER has the results of experiments/software-fr.yaml.
figures: $(READY)
	$(BIN)/lacuna report $(OUT)
	cp $(OUT)/figures/accuracy.png $(OUT)/figures/curve.png docs/images/

clean:
	rm -rf $(VENV) $(COMET) build demo bench .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
