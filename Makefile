# make up      sets up everything, trains on this machine, shows the result
# make test    sets up everything, runs all tests
# Every target needs only Python 3.12, make and git; the first one run makes .venv and a Pulumi engine.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

STACK ?= local
ARGS ?=
ONLY ?=
BIN := .venv/bin
HOST_PYTHON = $$(tools/host-env.sh)

.PHONY: help setup up preview destroy lint test quick quick-tests soak test-times defects coverage flaky test-gcloud test-cluster bench golden lock keys picture

help:
	@sed -n '1,3s/^# //p' Makefile

setup:
	@tools/setup.sh

# What costs nothing is not planned twice; what is paid for is shown as a whole before any of it is made.
PLANNED_ONCE = $(if $(shell grep -s '^ *slipway:target: *local\b' stacks/Pulumi.$(STACK).yaml),--skip-preview)

up: setup
	@$(BIN)/pulumi up --yes $(PLANNED_ONCE) --stack $(STACK) $(ARGS)
	@$(BIN)/slipway watch $(STACK)

preview: setup
	@$(BIN)/pulumi preview --stack $(STACK) $(ARGS)

destroy: setup
	@$(BIN)/pulumi destroy --yes --stack $(STACK) $(ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@echo "pyright, in both environments"; $(BIN)/pyright -p training --pythonpath "$(HOST_PYTHON)" & hosts=$$!; \
	  code=0; $(BIN)/pyright || code=$$?; wait $$hosts || code=$$?; exit $$code
	$(BIN)/shellcheck -x tools/*.sh training/*.sh infra/vm_hosts/*.sh infra/providers/pulumi-resource-slipway infra/standins/pulumi-resource-gcp infra/standins/google/pulumi-resource-gcp infra/standins/kubernetes/pulumi-resource-kubernetes .ci/run

# ONLY='tests/unit/test_cost.py tests/...': those alone, in either environment. ARGS: for pytest. SEED: which sample of
# the cases that `make soak` runs in full. REPEAT=1: what failed runs once more, alone, as CI does it.
SEED ?= 1
REPEAT ?=
export ONLY ARGS
SUITE = $(BIN)/python -m tests.suite --only="$$ONLY" --args="$$ARGS"
test: setup
	@$(SUITE) --seed $(SEED) $(if $(REPEAT),--repeat)

# What a change breaks is mostly found here, in a minute and a half: no engine, no trainings. Types need one core alone.
quick: setup
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint quick-tests

quick-tests: setup
	@$(SUITE) --quick

# Every case of every fault, kill and request; needs about half an hour. N=40: instead, so many lives of a training that
# comes to harm, from SEED; what is done is kept in .slipway/soak/.
soak: setup
	@$(if $(filter command,$(firstword $(origin N))),unshare -Urm "$(HOST_PYTHON)" -m tests.training.lives $(N) --seed $(SEED) --directory .slipway/soak,$(SUITE) --soak)

# Measures anew how long each module takes, by which make test divides the work; nothing else should be running.
test-times: setup
	@$(SUITE) --record-times

# Deliberate mistakes, one at a time, and whether the tests that should find them do. ONLY: a part of a name or file.
defects: setup
	@$(BIN)/python -m tests.suite.defects --only="$$ONLY"

# What the suite covers of each room of infra/ and training/, against tests/suite/coverage.json.
coverage: setup
	@$(BIN)/python -m tests.suite.coverage measure

# The whole suite N times in random order with busy cores; prints what did not pass each time.
N ?= 5
flaky: setup
	@$(BIN)/python -m tests.suite.flaky $(N)

# The emulator against the real gcloud; SLIPWAY_GOLDEN=1 writes what it sends into tests/golden/gcloud/.
test-gcloud: setup
	@command -v gcloud >/dev/null || { echo "gcloud is not on PATH: install the Google Cloud CLI, then run make test-gcloud again" >&2; exit 1; }
	$(BIN)/pytest tests/gcloud $(ARGS)

# Builds a Kubernetes control plane, once per machine, and runs every test of it; make test has a sample of them then.
test-cluster: setup
	@tools/cluster.sh >/dev/null
	@ONLY="$${ONLY:-tests/cluster}"; SLIPWAY_SOAK=1 $(SUITE) --seed $(SEED)

# Writes tests/golden/ anew; what changes is reviewed like code.
golden: setup
	@SLIPWAY_GOLDEN=1 SLIPWAY_SOAK=1 $(BIN)/pytest $$(grep -l check_golden tests/unit/*.py tests/engine/*.py)

bench: setup
	@SLIPWAY_HOST_PYTHON="$(HOST_PYTHON)" $(BIN)/python -m bench "$$ONLY"

# Resolves again and writes every lock of training/locks/; CHANNEL=nightly only those of the vendor's nightly index.
CHANNEL ?= stable
lock: setup
	@tools/lock.sh $(CHANNEL)

# Writes `config:` of Pulumi.yaml anew from the settings classes of all targets; after any change of a key.
keys: setup
	@$(BIN)/python -m infra.stack_file.project_schema

# README's picture of the emulator, whose hosts train meanwhile.
picture: setup
	@tools/picture.sh
