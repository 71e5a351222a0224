# `make demo` and `make test` need only Python 3.10 to 3.13 with pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
FAST := $(wildcard $(addprefix tests/,project records input/pipelines distributed rules reports saved_runs configure tensorboard_plugin cli))

.PHONY: demo test test-fast realtime-rounds test-all mutants versions wheel dist release lint docs screenshots clean

demo: $(VENV)/installed
	$(BIN)/keras-gpukit demo

# Those of real time run alone; the others say last what cannot be tested for want of a program.
test: $(VENV)/installed
	$(BIN)/pytest -m "not long" tests/realtime
	$(BIN)/pytest -n 3 --dist loadfile --no-loadscope-reorder -m "not long" --ignore tests/realtime

# The tests that need no TensorFlow, and no process but their own: seconds.
test-fast: $(VENV)/installed
	$(BIN)/pytest --no-tensorflow -m "not (tensorflow or heavy or slow or browser or long)" $(FAST)

# The tests of real time over and over with the other core full; ends at the first that fails.
ROUNDS ?= 20
realtime-rounds: $(VENV)/installed
	$(BIN)/python -c "while True: pass" & trap "kill $$!" EXIT INT TERM; for round in $$(seq $(ROUNDS)); do \
	  $(BIN)/pytest -q -m "not long" tests/realtime && echo "passed: round $$round of $(ROUNDS)" || exit 1; \
	done

# Every test, also the long ones, in one process: for a machine whose GPU two would share.
test-all: $(VENV)/installed
	$(BIN)/pytest

# Changes of single figures, each of which a test must notice: a quarter of an hour.
mutants: $(VENV)/installed
	$(BIN)/python benchmarks/mutants.py --jobs 2 --json benchmarks/results/mutants.json

# The important tests with the oldest and with the newest TensorFlow and Keras.
versions: $(VENV)/installed
	$(BIN)/nox

# dist/keras_gpukit-*.whl, which pip installs anywhere, from its file or URL.
wheel:
	$(PYTHON) -m pip wheel --quiet --no-deps --wheel-dir dist .

# Wheel and sdist, checked, installed and tested.
dist: $(VENV)/installed
	$(BIN)/nox -s dist

# The same of a version that is ready, and its tag.
release: $(VENV)/installed
	$(BIN)/nox -s release

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/check_words.py
	$(BIN)/python .ci/check_budgets.py

docs: $(VENV)/installed
	$(BIN)/mkdocs build --strict

# The screenshots in docs/images; needs Chromium.
screenshots: $(VENV)/installed
	PYTHONPATH=tests $(BIN)/python -m helpers.screenshots docs/images

clean:
	rm -rf $(VENV) site logs

# Python compiles what is imported; pip would compile all, of which most never is.
$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --editable ".[dev]"
	touch $@
