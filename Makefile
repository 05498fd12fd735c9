# Each target does its own set-up: a machine with Python >= 3.11 and make is enough.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
export OMP_NUM_THREADS ?= 2
# The release that tests and studies were run with; the extra itself takes a range.
TORCH  ?= torch==2.13.0

.PHONY: demo study test lint types unit verify docs architecture tables outputs figures pictures clean

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.studies: pyproject.toml studies/pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable . --editable ./studies
	@touch $@ $(VENV)/.base

$(VENV)/.test: pyproject.toml studies/pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet '$(TORCH)' --editable '.[test,docs]' --editable ./studies
	@touch $@ $(VENV)/.base $(VENV)/.studies $(VENV)/.docs

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@ $(VENV)/.base

demo: $(VENV)/.base
	$(BIN)/offpolicy demo

# One study, such as: make study NAME=coverage ARGS="--quick --replications 100"; cartpole needs PyTorch besides.
study: $(VENV)/.studies
	$(BIN)/offpolicy reproduce $(NAME) $(ARGS)

test: lint types docs unit

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
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Rooms, arrows and modules of docs/architecture.md, read from the imports.
architecture: $(BIN)/python
	$(BIN)/python docs/make_architecture.py

# The table of checks, and what the blocks of the pages print.
tables: $(VENV)/.base
	$(BIN)/python docs/make_tables.py

outputs: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python docs/make_outputs.py $(PAGES)

# Pictures of the explanation pages, and screenshots of the report (these need Chromium).
figures: $(VENV)/.docs
	$(BIN)/python docs/make_figures.py

pictures: $(VENV)/.test
	$(BIN)/python docs/make_pictures.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis site
