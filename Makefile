# The two commands most people need: `make quickstart` and `make test`.
SHELL := /bin/bash
UV := $(shell tools/find_uv.sh)
export UV_PROJECT_ENVIRONMENT ?= .venv

PACKAGES := tilefoundry-ir tilefoundry-runtime tilefoundry-cuda strideweave-carriers

.PHONY: quickstart test emulate explore fuzz lint types boundaries isolation wheels docs clean setup headers uv installed

setup: headers
	$(UV) sync --quiet --locked

# The pinned CUTLASS headers; nothing is fetched where they are there already.
headers: uv
	$(UV) run --quiet --no-project --isolated --with pip python tools/vendor.py

uv:
	@tools/bootstrap_uv.sh

quickstart: setup
	PYTHONPATH=tests-integration $(UV) run --no-sync python -m pipeline.quickstart

# Two processes; a file's tests stay together, since they share what its fixtures build.
test: setup
	$(UV) run --no-sync python -m pytest -n 2 --dist loadfile $(PYTEST_ARGS)

# Every op of the CUDA target on a host emulator of a block: about a quarter of an hour of one core.
emulate: setup
	TILEFOUNDRY_EMULATED=1 $(UV) run --no-sync python -m pytest -n 2 -m emulated packages/tilefoundry-cuda

# New examples for every property, twenty times as many as a test run draws.
explore: setup
	HYPOTHESIS_PROFILE=explore $(UV) run --no-sync python -m pytest -n 2 -m hypothesis $(PYTEST_ARGS)

# 20,000 damaged checkpoints and alias tables, with the branch coverage they reach.
fuzz: setup
	TILEFOUNDRY_FUZZ=10000 $(UV) run --no-sync coverage run --branch --data-file=.coverage \
	    --include='packages/tilefoundry-runtime/src/tilefoundry/runtime/resource/*,packages/tilefoundry-ir/src/tilefoundry/ir/safetensors_header.py' \
	    -m pytest -q packages/tilefoundry-runtime/tests/test_fuzz_resources.py
	$(UV) run --no-sync coverage report

lint: setup
	$(UV) run --no-sync ruff check .
	$(UV) run --no-sync ruff format --check .

# The namespace is one folder only where nothing is installed editable.
installed: uv
	UV_PROJECT_ENVIRONMENT=envs/installed $(UV) sync --quiet --locked --no-editable $(PACKAGES:%=--reinstall-package %)

types: installed
	UV_PROJECT_ENVIRONMENT=envs/installed $(UV) run --no-sync python tools/check_types.py

boundaries: installed
	UV_PROJECT_ENVIRONMENT=envs/installed $(UV) run --no-sync lint-imports
	UV_PROJECT_ENVIRONMENT=envs/installed $(UV) run --no-sync python tools/check_doors.py

# Each package's tests with only its own dependencies.
isolation: $(PACKAGES:%=isolation-%)
isolation-%: headers
	UV_PROJECT_ENVIRONMENT=envs/$* $(UV) run --locked --exact --package $* --group test python -m pytest -n 2 --dist loadfile packages/$*

wheels: uv
	rm -rf dist
	$(UV) build --all-packages --out-dir dist
	UV=$(UV) $(UV) run --no-project --isolated python tools/check_wheels.py dist

docs: uv
	UV_PROJECT_ENVIRONMENT=envs/docs $(UV) sync --quiet --locked --no-editable --no-group models --group docs $(PACKAGES:%=--reinstall-package %)
	UV_PROJECT_ENVIRONMENT=envs/docs $(UV) run --no-sync mkdocs build --strict --quiet

clean:
	rm -rf .venv envs dist site build .pytest_cache .ruff_cache .import_linter_cache
