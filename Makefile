# Each target does its own set-up: a machine with Python >= 3.11 and make is enough.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
export OMP_NUM_THREADS ?= 2

.PHONY: demo test lint types unit verify docs figures pictures clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	@touch $@ $(VENV)/.base

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@ $(VENV)/.base

demo: $(VENV)/.base
	$(BIN)/offpolicy demo

test: lint types unit

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

# The two workers have a thread each: learners that spin up more would only fight over the cores.
unit: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist worksteal -m 'not verify'

# Slow statistical runs: coverage, rates and efficiency by simulation at full size.
verify: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 -m verify --timeout 7200

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict

# Pictures of the explanation pages, and screenshots of the report (these need Chromium).
figures: $(VENV)/.docs
	$(BIN)/python docs/make_figures.py

pictures: $(VENV)/.test
	$(BIN)/python docs/make_pictures.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis site
