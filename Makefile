# Everything a developer does, from a machine with nothing but CPython (3.11 or newer) and make.
#
#   make demo     set up, then multiply two matrices with samples/gemm.py
#   make test     set up, lint, type check, run the tests
#
# `PYTHON=python3.12 make setup` picks another interpreter, `VENV=...` another environment.

SHELL  := bash
PYTHON ?= python3
VENV   ?= .venv
JOBS   ?= 2
ARGS   ?=

BIN    := $(abspath $(VENV))/bin
STAMP  := $(VENV)/.stamp
BUILD  := build
PIP    := $(BIN)/python -m pip --disable-pip-version-check

export PIP_NO_INPUT := 1

.DEFAULT_GOAL := help
.PHONY: help setup demo test lint format typecheck pytest golden lowest gpu clean
.DELETE_ON_ERROR:

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

setup: $(STAMP)  ## create .venv with tiledsl (editable) and the development tools

# Again when the requirements, the package list or the version change; a no-op otherwise.
$(STAMP): pyproject.toml tiledsl/_version.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and \
	    f"tiledsl needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}." \
	    " Set PYTHON=/path/to/python3.")'
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@# The build backend comes first, so that the editable install needs no isolated second copy;
	@# -qq hides its warning about editable installs, which is about layouts other than this one.
	$(PIP) install -q 'setuptools>=77'
	$(PIP) install -qq --no-build-isolation -e '.[dev,notebook]'
	@touch $@

demo: setup  ## run the GEMM sample: on the GPU if there is one, else in the emulator
	$(BIN)/python samples/gemm.py $(ARGS)

test: setup lint typecheck pytest  ## lint, type check and test

lint: setup  ## ruff: rules and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

format: setup  ## apply what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# mypy runs no import hooks, so it cannot find `tiledsl.codegen` in the source tree (it lies in
# codegen/). The wheel has the real layout, and also shows that it holds every module. Stale files
# in build/lib would end up in the wheel, hence the removal. The `sed` leads back to our files.
typecheck: setup  ## mypy --strict on the built wheel
	@rm -rf $(BUILD)/lib $(BUILD)/bdist.* $(BUILD)/wheel $(BUILD)/typecheck
	$(PIP) wheel -q --no-deps --no-build-isolation -w $(BUILD)/wheel .
	$(PIP) install -q --no-deps --no-compile --target $(BUILD)/typecheck $(BUILD)/wheel/*.whl
	@set -o pipefail; cd $(BUILD)/typecheck && $(BIN)/mypy --strict -p tiledsl \
	    --config-file $(CURDIR)/pyproject.toml --cache-dir $(CURDIR)/.mypy_cache \
	    | sed -E 's#^tiledsl/(codegen|runtime)/#\1/#'

pytest: setup  ## the tests alone; ARGS='-k ring -x' narrows them
	$(BIN)/python -m pytest -n $(JOBS) $(ARGS)

golden: setup  ## write the golden files anew; read the diff before you commit it
	$(BIN)/python -m pytest -q -n $(JOBS) -m 'not gpu' --update-golden $(ARGS)

# Each lower bound in pyproject.toml claims that the tests pass with it.
lowest: setup  ## run the tests with the oldest dependencies that pyproject.toml allows
	@mkdir -p $(BUILD)
	$(BIN)/python tests/project/lower_bounds.py > $(BUILD)/lowest.txt
	$(PYTHON) -m venv $(BUILD)/lowest
	$(BUILD)/lowest/bin/python -m pip install -q -c $(BUILD)/lowest.txt -e '.[dev,notebook]'
	$(BUILD)/lowest/bin/python -m pytest -n $(JOBS) $(ARGS)

gpu:  ## on a GPU machine: build, check and time everything
	bash benchmarks/gpu.sh

clean:  ## remove what the targets made, the environment too
	rm -rf $(VENV) $(BUILD) dist *.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
