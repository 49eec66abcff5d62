# Everything below needs nothing but python3 (3.11 or later, with its venv module) and make.

PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/.installed
TEST := $(VENV)/.installed-test

.PHONY: dio_read_lock test benchmark boundscheck figures clean

## The main job: the predicted IOPS matrices, set against the measured ones.  Results land in results/dio_read_lock.
dio_read_lock: $(RUN)
	$(VENV)/bin/python -m fssim.experiment dio_read_lock --out results/dio_read_lock $(ARGS)

## Every check: formatting, lint, types, tests.
test: $(TEST)
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/ruff check .
	$(VENV)/bin/mypy
	$(VENV)/bin/pytest -n auto $(ARGS)

## Speed of the engines, side by side (not part of the tests: timings depend on the machine).
benchmark: $(TEST)
	$(VENV)/bin/pytest benchmarks --benchmark-enable -p no:xdist -s $(ARGS)

## The compiled engine with every array index checked: much slower, for changes of the engine.
boundscheck: $(TEST)
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(VENV)/boundscheck $(VENV)/bin/pytest -n auto tests/engine tests/identity $(ARGS)

## The pictures of the README and the documents, from a fresh run.
figures: dio_read_lock
	mkdir -p docs/images
	cp results/dio_read_lock/scaling-seqrd.png docs/images/dio_read_lock.png
	cp results/dio_read_lock/timeline.png docs/images/timeline.png

clean:
	rm -rf $(VENV) results build dist

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "fssim needs Python 3.11 or later; say which with: make PYTHON=python3.12 ..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(RUN): $(VENV)/bin/python pyproject.toml
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(TEST): $(VENV)/bin/python pyproject.toml
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@ $(RUN)
