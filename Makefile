# Each target does its own set-up: a machine with Python >= 3.11 and make is enough.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
export OMP_NUM_THREADS ?= 2
# The release that tests and studies were run with; the extra itself takes a range.
TORCH  ?= torch==2.13.0

.PHONY: demo study test quick lint types unit verify docs architecture tables outputs figures pictures clean fuzz faults soak mutation reliability lock audit audit-newest sbom wheel bench paper

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.base: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.studies: pyproject.toml studies/pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable . --editable ./studies
	@touch $@ $(VENV)/.base

$(VENV)/.bench: pyproject.toml bench/pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable . --editable ./bench
	@touch $@ $(VENV)/.base

$(VENV)/.test: pyproject.toml studies/pyproject.toml bench/pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet '$(TORCH)' --editable '.[test,docs]' --editable ./studies --editable ./bench
	@touch $@ $(VENV)/.base $(VENV)/.studies $(VENV)/.bench $(VENV)/.docs

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	@touch $@ $(VENV)/.base

demo: $(VENV)/.base
	$(BIN)/offpolicy demo

# One study, such as: make study NAME=coverage ARGS="--quick --replications 100"; cartpole needs PyTorch besides.
study: $(VENV)/.studies
	$(BIN)/offpolicy reproduce $(NAME) $(ARGS)

# One entry on the frozen tasks, such as: make bench ENTRY=doubleml QUICK=1 LOGS=20 DATA=/path/to/data; a run goes on from
# what is there. The entry's environment is made under .bench/.
bench: $(VENV)/.bench
	$(BIN)/offpolicy-bench run $(foreach e,$(or $(ENTRY),offpolicy),--entry $(e)) $(if $(QUICK),--quick) $(if $(LOGS),--logs $(LOGS)) $(if $(DATA),--data $(DATA))
	$(BIN)/offpolicy-bench score $(if $(QUICK),--quick) --summary .bench/summary.json
	$(BIN)/offpolicy-bench page --summary .bench/summary.json --page .bench/page.md --pictures .bench/pictures

# The short paper as a PDF, where pandoc and LaTeX are installed.
paper:
	@command -v pandoc >/dev/null || { echo "make paper needs pandoc (Debian: apt install pandoc)"; exit 1; }
	@command -v xelatex >/dev/null || { echo "make paper needs xelatex (Debian: apt install texlive-xetex texlive-latex-recommended texlive-fonts-recommended lmodern)"; exit 1; }
	mkdir -p out
	cd paper && pandoc paper.md --citeproc --bibliography paper.bib --pdf-engine xelatex --output ../out/paper.pdf
	@echo "written: out/paper.pdf"

test: lint types docs unit

# Before a commit, in about a minute: lint, types, layers, pinned answers and the formulas.
quick: lint types
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n 2 tests/reference/test_pinned.py tests/unit/test_layers.py \
		tests/unit/test_scores.py tests/unit/test_questions.py tests/unit/test_guards_of_fits.py

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python docs/make_sentences.py --check

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

# The table of checks, the map of the pages for language models, and what the blocks of the pages print.
tables: $(VENV)/.base
	$(BIN)/python docs/make_tables.py
	$(BIN)/python docs/make_extensions.py
	$(BIN)/python docs/make_llms.py

outputs: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python docs/make_outputs.py $(PAGES)

# Pictures of the explanation pages, and screenshots of the report (these need Chromium).
figures: $(VENV)/.docs
	$(BIN)/python docs/make_figures.py

pictures: $(VENV)/.test
	$(BIN)/python docs/make_pictures.py

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis site

# Bytes that nobody meant: dsjson, JSON lines, CSV, Parquet, gates and run files under Atheris.
FUZZ_SECONDS ?= 600
fuzz: $(VENV)/.test
	$(BIN)/python -m pip install --quiet 'atheris>=2.3'
	$(BIN)/python tests/fuzz/fuzz.py $(FUZZ_SECONDS)

# Full disks, kills at every write, signals, forks, too little memory, odd terminals, a soak of 1,000 evaluations, all crossings
# of readers and faults, and every public call given junk.
faults: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/pytest -m 'verify or not verify' -s tests/hostile/test_faults.py tests/hostile/test_generated.py \
		tests/hostile/test_calls.py

# The soak by itself.
soak: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/pytest -m verify -s tests/hostile/test_faults.py -k thousand

# Small changes of the code, and whether a test notices: a sample of SIZE. Results are kept, and a run goes on from them.
SIZE ?= 150
SEED ?= 1
mutation: $(VENV)/.test
	$(BIN)/python -m pip install --quiet 'cosmic-ray>=8.3' 'coverage>=7.6'
	OMP_NUM_THREADS=1 $(BIN)/python tests/mutation/run.py --size $(SIZE) --seed $(SEED)

# The catalogue's counts in docs/reliability.md.
reliability: $(VENV)/.test
	$(BIN)/python tests/hostile/catalogue.py docs/reliability.md
	OMP_NUM_THREADS=1 $(BIN)/python tests/hostile/generated.py docs/reliability.md

# What the tests were run with, version by version.
lock: $(VENV)/.test
	$(BIN)/python -m pip freeze --exclude-editable --exclude pip --exclude setuptools > requirements/test.lock

# Known vulnerabilities of those versions, and a bill of materials of the base install.
audit: | $(BIN)/python
	$(BIN)/python -m pip install --quiet pip-audit
	$(BIN)/pip-audit --strict --requirement requirements/test.lock --no-deps --disable-pip

# The same as far as the pages of the projects tell, for networks that pass on no more.
audit-newest: | $(BIN)/python
	$(BIN)/python requirements/newest.py

sbom: | $(BIN)/python
	$(PYTHON) -m venv $(VENV)/sbom
	$(VENV)/sbom/bin/python -m pip install --quiet .
	$(BIN)/python -m pip install --quiet cyclonedx-bom
	mkdir -p out
	$(BIN)/cyclonedx-py environment $(VENV)/sbom --output-reproducible --output-file out/sbom.json

# The wheel, built twice: the same commit gives the same bytes.
wheel: export SOURCE_DATE_EPOCH = $(shell git log -1 --format=%ct)
wheel: | $(BIN)/python
	$(BIN)/python -m pip install --quiet build
	rm -rf out/wheel
	$(BIN)/python -m build --wheel --outdir out/wheel/one .
	$(BIN)/python -m build --wheel --outdir out/wheel/two .
	cmp out/wheel/one/*.whl out/wheel/two/*.whl
	sha256sum out/wheel/one/*.whl
