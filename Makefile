# Everything a developer or a first user runs.  Needs python3 (3.10 or later, with venv) and make, nothing else.
#
#   PYTHON   the interpreter that makes the virtual environment       (default python3)
#   VENV     where the virtual environment is                         (default .venv)
#   ARGS     more arguments for pytest, `make test ARGS="-k guards"`; then without the budgets  (default none)
#   TORCH    the torch that `make test-torch` takes, in a virtual environment of its own
#   JOBS     how many processes run tests side by side, 0 for this one (default: one for each core)

PYTHON ?= python3
VENV ?= .venv
ARGS ?=
TORCH ?=
CONSTRAINTS ?= constraints.txt
JOBS ?= $(shell nproc 2>/dev/null || echo 1)
# A file's tests share what they compile, and each process computes on one core.  sympy keeps 1,000 results otherwise,
# fewer than a test needs again.
PYTEST = OMP_NUM_THREADS=1 SYMPY_CACHE_SIZE=100000 $(BIN)/python -m pytest -n $(JOBS) --dist loadfile

# In one process nothing runs beside the budgets, which then need none of their own.
ALONE := $(filter 0,$(JOBS))

# Images of containers often forbid bytecode: each process would compile all that it imports, torch among it.
unexport PYTHONDONTWRITEBYTECODE

BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
# Python compiles the modules that are imported, a fraction of those that are installed.
INSTALL = $(PIP) install --no-compile -c $(CONSTRAINTS)
CHECKED := trtdiag tests benchmarks examples
ZOO_WITHOUT_DEPS := torchvision timm segmentation-models-pytorch
ZOO := transformers diffusers torch-geometric

.DEFAULT_GOAL := help
CHECKED += docs
.NOTPARALLEL:
.PHONY: help demo docs test test-all test-torch quick budgets quick-budgets lint format bench bench-report bench-fix-dims clean

help: ## Print the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | while IFS="$$(printf '\t')" read -r name text; do \
	  printf '  make %-14s %s\n' "$$name" "$$text"; done

demo: $(VENV)/.package ## Export an example model and analyze it: no GPU, no TensorRT
	@mkdir -p demo
	$(BIN)/python examples/demo.py demo/model.pt2
	$(BIN)/trtdiag analyze demo/model.pt2 -o demo/report.html --json demo/report.json --fail-on never
	@echo
	@echo "The report: $(CURDIR)/demo/report.html (open it in a browser; report.json beside it says the same)"

test: $(VENV)/.test lint $(if $(ARGS)$(ALONE),,quick-budgets) quick ## Lint, type check and run the tests that need neither GPU nor minutes

# In one process, as in CI, asserts are plain: rewriting those of all tests takes as long as a folder's tests.  What fails
# then runs once more, rewritten, so that it says what differs.
QUICK = $(PYTEST) -m "not slow and not gpu$(if $(ALONE),, and not budget)"

quick: $(VENV)/.test
	$(QUICK) $(if $(ALONE),--assert=plain $(ARGS) || { $(QUICK) --last-failed --last-failed-no-failures none $(ARGS); exit 1; },$(ARGS))

test-all: $(VENV)/.zoo $(VENV)/.ray lint $(if $(ARGS),,budgets) ## All tests that need no GPU: adds the slow ones and the model zoo
	$(PYTEST) -m "not gpu and not budget" $(ARGS)

# No lint: the linters read the torch of constraints.txt.  Not for CI: where pip offers CUDA builds alone, torch brings
# gigabytes of NVIDIA's libraries, and cannot be imported without them.
test-torch: ## The quick tests with another torch: make test-torch TORCH=2.15.0 (its build may be some GB)
	@test -n "$(TORCH)" || { echo "Say which torch: make test-torch TORCH=2.15.0"; exit 2; }
	@$(MAKE) --no-print-directory VENV=.venv-torch-$(TORCH) CONSTRAINTS=.venv-torch-$(TORCH)/constraints.txt quick

# Wall times, so nothing may run beside them: not the other tests, and not what they wait for (.NOTPARALLEL).
budgets: $(VENV)/.test ## Hold the report's pages to their budgets of size and time, with nothing beside
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m budget tests/browser/test_browser_budgets.py

# The least pages alone.
quick-budgets: $(VENV)/.test
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "budget and not slow" tests/browser/test_browser_budgets.py

docs: $(VENV)/.docs ## The documents as a site, in site/: links are strict, nothing is fetched
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

lint: $(VENV)/.test ## ruff and mypy
	$(BIN)/ruff check $(CHECKED)
	$(BIN)/ruff format --check $(CHECKED)
	$(BIN)/mypy

format: $(VENV)/.test ## Rewrite the sources in the house's format
	$(BIN)/ruff check --fix-only $(CHECKED)
	$(BIN)/ruff format $(CHECKED)

bench: $(VENV)/.zoo ## Time and memory of the analysis, beside torch.export
	$(BIN)/python benchmarks/analyze.py

bench-report: $(VENV)/.test ## Size and time of the report's pages at 1,000, 5,000 and 10,000 nodes
	$(BIN)/python benchmarks/report.py

bench-fix-dims: $(VENV)/.zoo ## Corrected dims beside torch's own loop on all live cases (an hour and more)
	$(BIN)/python benchmarks/fix_dims.py

clean: ## Remove the virtual environment, caches and the demo's output
	rm -rf $(VENV) .venv-torch-* demo site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# torch goes first and alone: pip then takes the build that this machine offers, and nothing below replaces it.  The pip
# of the interpreter that makes the environment fetches a new one in a third of the time that its own copy takes.
$(VENV)/constraints.txt: constraints.txt
	@mkdir -p $(@D)
	sed 's/^torch==.*/torch==$(TORCH)/' $< > $@

$(VENV)/.torch: $(CONSTRAINTS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "trtdiag needs Python 3.10 or later; $(PYTHON) is $$($(PYTHON) --version 2>&1).  Try: make PYTHON=python3.11"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv --without-pip $(VENV)
	@$(PYTHON) -m pip --disable-pip-version-check --quiet --python $(BIN)/python install --no-compile 'pip>=25' 2>/dev/null || { \
	  $(PYTHON) -m venv $(VENV) && { \
	  $(PIP) install --no-compile 'pip>=25' || echo "pip stays as Python has brought it: it takes twice as long"; }; }
	$(INSTALL) torch
	@touch $@

$(VENV)/.package: $(VENV)/.torch pyproject.toml
	$(INSTALL) -e .
	@touch $@

# One run of pip for all: each builds the package again.
$(VENV)/.test: $(VENV)/.torch pyproject.toml
	@$(INSTALL) -e '.[test,docs,rtx,quantization,triton]' || { \
	  echo "tensorrt-rtx or tritonclient cannot be had here: tests that need it are skipped"; \
	  $(INSTALL) -e '.[test,docs,triton]' || $(INSTALL) -e '.[test,docs,rtx]' || $(INSTALL) -e '.[test,docs]'; }
	@$(INSTALL) --no-deps nvidia-pytriton || \
	  echo "nvidia-pytriton cannot be had here: tests with a real Triton server are skipped"
	@touch $(VENV)/.package $(VENV)/.docs $@

# Only slow tests start it, and unpacking it takes longer than the quick tests of a folder.
$(VENV)/.ray: $(VENV)/.test
	@$(INSTALL) 'ray>=2.40' || echo "ray cannot be had here: tests that start it are skipped"
	@touch $@

# torchvision and what depends on it ask for a torch of their own, so they come without their dependencies.
$(VENV)/.zoo: $(VENV)/.test
	$(INSTALL) --no-deps $(ZOO_WITHOUT_DEPS)
	$(INSTALL) $(ZOO) scipy pyyaml safetensors pillow tqdm
	@touch $@

# The names of the extra docs, not the extra: that would build the package again.
$(VENV)/.docs: $(VENV)/.package
	$(PIP) install -c $(CONSTRAINTS) mkdocs-material
	@touch $@
