# The README lists the plain commands behind these targets, for systems without make.
PYTHON ?= python3
# TORCH=cpu: on Linux, take PyTorch's CPU build (200 MB) in place of the CUDA build (GBs).
TORCH ?=
# Another torch than the pinned one: make test TORCH_VERSION=2.9.1
TORCH_VERSION ?= $(shell sed -n 's/^torch==//p' constraints.txt)
PORT ?= 8000

BIN := .venv/bin
PINS := .venv/constraints.txt
BOOK_ENV := .venv/.book-installed
TEST_ENV := .venv/.test-installed
NODE_ENV := book/node_modules/.package-lock.json

.DEFAULT_GOAL := help
.PHONY: help book test check chapters claims exercises serve accept bench repository clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*##  */\1\t/p' $(MAKEFILE_LIST) | expand -t 14

book: $(BOOK_ENV) $(NODE_ENV)  ## build the HTML book in _build/html
	$(BIN)/jupyter-book build . -W --keep-going -n --quiet
	@echo "The book is at _build/html/index.html"

test: $(TEST_ENV) $(NODE_ENV)  ## build the book and run every test
	$(BIN)/python tests/run.py

check: $(TEST_ENV)  ## lint, types and fast tests, in under a minute
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy tfcourse
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -n logical -m "not slow and not nohook and not accept" \
	  tests --ignore=tests/book

chapters: $(BOOK_ENV)  ## run every notebook and store its outputs (FILES="chapters/..." for some)
	$(BIN)/python book/execute.py $(FILES)

claims: $(TEST_ENV)  ## measure the claims of the sources again, and write their page
	$(BIN)/pytest -q tests/claims --store-measurements
	$(BIN)/python book/claims.py

exercises: $(TEST_ENV)  ## write the student notebooks and the instructors' page from the masters
	$(BIN)/python book/exercises.py

serve: book  ## build the book and show it at http://localhost:8000 (PORT=...)
	$(BIN)/python -m http.server --bind 127.0.0.1 --directory _build/html $(PORT)

accept: $(TEST_ENV) $(NODE_ENV)  ## everything in `make test`, then what takes too long for it
	$(BIN)/python tests/run.py --accept

bench: $(TEST_ENV)  ## time training, generation and memory; print the table for the CHANGELOG
	$(BIN)/python -m tests.benchmarks

repository:  ## set the project's address everywhere: URL="https://github.com/<you>/<fork>" [REF=main]
	$(PYTHON) book/repository.py "$(URL)" $(REF)

clean:  ## remove the built book and caches (the environment stays)
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache .hypothesis

.venv/pyvenv.cfg:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "$(PYTHON) is older than 3.11; give a newer one: make book PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv .venv

# The pins, with the torch that was asked for. Rewritten only when they change.
$(PINS): .venv/pyvenv.cfg FORCE
	@sed 's/^torch==.*/torch==$(TORCH_VERSION)/' constraints.txt > $@.new
	@cmp -s $@.new $@ && rm $@.new || mv $@.new $@
FORCE:

.venv/.torch-$(TORCH): $(PINS)
ifeq ($(TORCH),cpu)
	$(BIN)/pip install -qq -c $(PINS) uv
	$(BIN)/uv pip install -q --python $(BIN)/python --torch-backend=cpu torch==$(TORCH_VERSION)
endif
	@touch $@

$(BOOK_ENV): pyproject.toml $(PINS) .venv/.torch-$(TORCH)
	$(BIN)/pip install -qq -c $(PINS) -e '.[book]'
	@touch $@

$(TEST_ENV): pyproject.toml $(PINS) $(BOOK_ENV)
	$(BIN)/pip install -qq -c $(PINS) -e '.[test]'
	@touch $@

$(NODE_ENV): book/package.json book/package-lock.json $(BOOK_ENV)
	$(BIN)/python book/tfcourse_book.py
