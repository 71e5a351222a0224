# `make demo` and `make test` need only Python 3.10 to 3.13 with pip.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint docs screenshots clean

demo: $(VENV)/installed
	$(BIN)/keras-gpukit demo

test: $(VENV)/installed
	$(BIN)/pytest -n 2 -m "not browser"
	$(BIN)/pytest -m browser  # they share a fit and a TensorBoard, which need both cores

lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python .ci/check_words.py

docs: $(VENV)/installed
	$(BIN)/mkdocs build --strict

# The screenshots in docs/images; needs Chromium.
screenshots: $(VENV)/installed
	$(BIN)/python tests/screenshots.py docs/images

clean:
	rm -rf $(VENV) site logs

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable ".[dev]"
	touch $@
