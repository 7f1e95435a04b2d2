# Each target does its own set-up: a fresh machine needs Python 3.11 or newer and make, nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# The suite splits over the cores; each worker compiles for itself.
PYTEST_WORKERS ?= 2

.PHONY: demo test test-slow lint bench docs docs-generated install clean

demo: install  ## SD3's skills in a maze: train, measure and draw them, then use one for a task, against from scratch
	$(BIN)/skillscape pretrain sd3 --env maze/square_a --steps 250000 --out runs/demo --force
	$(BIN)/skillscape evaluate runs/demo
	$(BIN)/skillscape plot runs/demo
	$(BIN)/skillscape finetune runs/demo --task reach --skill grid --steps 50000 --out runs/demo-finetuned --force
	$(BIN)/skillscape train --env maze/square_a --task reach --steps 50000 --out runs/demo-scratch --force
	@$(BIN)/python -c 'import skillscape; [print("%-9s  return %4.1f after %d steps with reward" % (name, \
	  run.results["measures"]["return"], run.end)) for name in ("finetuned", "scratch") \
	  for run in [skillscape.load("runs/demo-" + name)]]'

test: install  ## the fast suite
	$(BIN)/python -m pytest -m "not slow" -n $(PYTEST_WORKERS) --dist loadfile

test-slow: install $(VENV)/.installed-ray  ## everything, some of it for minutes
	$(BIN)/python -m pytest -n $(PYTEST_WORKERS) --dist loadfile

lint: install  ## ruff and the type checker
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: docs-generated $(VENV)/.installed-docs  ## the site, in build/site; open build/site/index.html or serve the folder
	$(BIN)/python tools/site.py
	$(BIN)/zensical build --strict

docs-generated: install  ## the pages that are generated from the code: docs/methods/, docs/backbones.md, docs/cli.md
	JAX_PLATFORMS=cpu $(BIN)/python tools/generate_docs.py

bench: install  ## measure speed, as ratios within one run; writes benchmarks/*.json
	$(BIN)/python benchmarks/mazes.py
	$(BIN)/python benchmarks/urlb.py
	$(BIN)/python benchmarks/sd3.py
	$(BIN)/python benchmarks/growth.py
	$(BIN)/python benchmarks/cores.py
	$(BIN)/python benchmarks/pixels.py
	$(BIN)/python benchmarks/rendering.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/compile.py

install: $(VENV)/.installed

$(VENV)/.installed: pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit("skillscape needs Python 3.11 or newer; say make PYTHON=python3.11" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,gym,report,urlb,video]'
	@touch $@

# Ray is large, and only a slow test needs it.
$(VENV)/.installed-ray: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[ray]'
	@touch $@

# Only the site needs these.
$(VENV)/.installed-docs: $(VENV)/.installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

clean:  ## remove the virtual environment and caches, not the runs
	rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache
