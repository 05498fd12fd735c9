# Each target does its own set-up: a machine with Python >= 3.11 and make is enough.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
export OMP_WAIT_POLICY ?= passive
export OMP_NUM_THREADS ?= 2

.PHONY: demo test lint types unit verify docs clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@ $(VENV)/.base

demo: $(VENV)/.base
	$(BIN)/offpolicy demo

test: lint types unit

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

unit: $(VENV)/.test
	$(BIN)/pytest -n 2 -m 'not verify'

# Slow statistical runs: coverage and rates by simulation at full size.
verify: $(VENV)/.test
	$(BIN)/pytest -n 2 -m verify --timeout 7200

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis
