# make demo     set up, then train and ask a model of six tasks
# make test     set up, then every check and test
# make fuzz     10,000 made-up requests for each of the server's endpoints (half an hour and more)
# make offline  the tests of the server where there is no network at all (Linux)
# make check    ruff and mypy only        make bench   the measurements        make clean   back to a fresh clone
#
# Needs Python 3.11 or newer, a shell and make. Everything goes into .venv, from requirements.lock.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -qq
# On Linux the torch of the package index wants CUDA packages of several GB, which are not in the lock file. Where there is no CPU
# build of it, name pytorch.org's index of CPU builds: make demo TORCH_INDEX=...
TORCH_INDEX ?=
# Test processes side by side, one thread each.
WORKERS ?= 2

.DELETE_ON_ERROR:
.PHONY: browser demo test check fuzz offline bench clean

demo: $(INSTALLED)
	@$(BIN)/onepass demo

test: $(INSTALLED) browser check
	@start=$$(date +%s); \
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal && \
	echo "make test: all passed in $$(( $$(date +%s) - start )) seconds"

check: $(INSTALLED)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
	@$(BIN)/mypy

# The tests of the page need a browser; without one they are skipped.
browser:
	@command -v chromium >/dev/null 2>&1 || { echo "Installing Chromium, for the tests of the page."; \
	(test "$$(id -u)" = 0 && apt-get install -y -qq chromium >/dev/null 2>&1) || \
	sudo -n apt-get install -y -qq chromium >/dev/null 2>&1; } || \
	echo "Chromium could not be installed here: the tests of the page in a browser are skipped."

# schemathesis and what it needs stay beside the environment: it is a pytest plugin, and slows every other run.
FUZZ := $(VENV)/fuzz
CASES ?= 10000
# Some endpoints only: make fuzz ONLY="predict or classify"
ONLY ?= schemathesis or bytes
fuzz: $(INSTALLED) $(FUZZ)/.installed
	@ONEPASS_FUZZ_CASES=$(CASES) PYTHONPATH=$(FUZZ) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -s -m slow -k "$(ONLY)" tests/server/test_fuzz.py

$(FUZZ)/.installed: requirements-fuzz.lock $(INSTALLED)
	@$(PIP) install --no-deps --upgrade --target $(FUZZ) -r requirements-fuzz.lock
	@touch $@

offline: $(INSTALLED)
	@OMP_NUM_THREADS=1 unshare -rn sh -c 'ip link set lo up && exec $(BIN)/python -m pytest tests/server tests/test_deploy.py'

bench: $(INSTALLED)
	@for script in benchmarks/*.sh; do \
	test -e "$$script" || { echo "There are no measurements in benchmarks/ yet."; exit 1; }; \
	echo "$$script"; PATH="$(CURDIR)/$(BIN):$$PATH" sh "$$script" || exit 1; done

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis src/*.egg-info
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo \
	"onepass needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another: make PYTHON=python3.12"; exit 1; }
	@echo "Installing into $(VENV), once; this takes some minutes."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --no-deps -r requirements.lock
	@test -z "$(TORCH_INDEX)" || \
	$(PIP) install --no-deps --force-reinstall --index-url $(TORCH_INDEX) $$(grep '^torch==' requirements.lock)
	@$(BIN)/python -c 'import torch' 2>/dev/null || { echo \
	"torch was installed but does not start without CUDA. Run again with TORCH_INDEX=, pytorch.org's index of CPU builds."; exit 1; }
	@$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@
