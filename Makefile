# Each target installs what it needs into .venv, once:
# the empty file .venv/with-test means that the dependency group test is installed there.
.PHONY: demo test test-slow test-all test-backends test-public test-nightly test-keras \
	test-alone test-clients test-lowest lint notebooks docs dist bench against survive soak clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

export KERAS_BACKEND := tensorflow
export TF_CPP_MIN_LOG_LEVEL ?= 3
# Without bytecode files each test process compiles for 9 s.
unexport PYTHONDONTWRITEBYTECODE

# Prefer versions that TensorFlow has wheels for.
PYTHON ?= python3.13 python3.12 python3.11 python3
# The first of PYTHON that is 3.11 or newer and has venv.
python = $(or $(shell for python in $(PYTHON); do \
	"$$python" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' \
	2> /dev/null && echo "$$python" && break; done),$(error dfgen needs Python 3.11 or newer, \
	with venv. Found none as: $(PYTHON). Install one, or say make PYTHON=/path/to/python3))
INSTALL := -m pip install --quiet --disable-pip-version-check
# Each process takes 2 GB and is idle for a third of its time. Tests of one file share costly
# fixtures, so they stay in one process until another process is out of work.
export PARALLEL := -n 3 --dist worksteal
PYTEST := .venv/bin/python -m pytest $(PARALLEL)

demo: .venv/with-tensorflow         ## trains models on scanned digits
	.venv/bin/dfgen demo

test: .venv/with-test               ## the quick tests on TensorFlow
	$(PYTEST)

# Which tests a target runs is decided by marks alone: pyproject.toml lists them.
WITH_BACKENDS := .venv/with-test .venv/with-jax .venv/with-torch

test-slow: $(WITH_BACKENDS)              ## the slow tests that need one backend only; LESS="and not long"
	$(PYTEST) -m "slow and not backend and not clients and not alone $(LESS)"

test-backends: $(WITH_BACKENDS)          ## the tests marked backend, on TensorFlow, JAX and torch
	.ci/backends .venv backend

test-public: $(WITH_BACKENDS)            ## the same for tests/public alone
	.ci/backends .venv "public and backend"

test-nightly: $(WITH_BACKENDS)           ## with keras-nightly, the newest or NIGHTLY=3.16.0.dev...
	.ci/keras "nightly $(NIGHTLY)" "(public or keras) and backend"

test-keras: $(WITH_BACKENDS)             ## with each supported Keras, on three backends
	for version in 3.12 3.13 3.14 3.15 "nightly 3.16.0.dev2026102704"; do \
		.ci/keras "$$version" "(public or keras) and backend" || exit; done

test-alone: .venv/with-test .venv/with-jax .venv-none/with-dfgen .venv-jax/with-dfgen .venv-torch/with-dfgen
	.ci/strict .venv alone          ## dfgen with one backend installed, or none

test-clients: $(WITH_BACKENDS) .venv/with-clients  ## with KerasTuner, KerasHub, scikit-learn and others
	.ci/backends .venv clients

test-lowest: .venv-lowest/with-test ## the quick tests with the lowest versions in pyproject.toml
	.venv-lowest/bin/python -m pytest $(PARALLEL)

test-all: test test-slow test-backends test-nightly test-alone test-clients test-lowest  ## all tests

lint: .venv/with-test               ## style, formatting, types
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy

notebooks: .venv/with-notebook      ## executes the notebooks; discards their output
	.venv/bin/jupyter-nbconvert --to notebook --execute --stdout notebooks/*.ipynb > /dev/null

docs: .venv/with-test .venv/with-docs  ## runs the code of the pages; builds the site in build/docs
	rm -rf build/docs
	.venv/bin/python -m sphinx --quiet --fail-on-warning --keep-going docs build/docs
	.ci/strict .venv page
	@echo 'See build/docs/index.html'

dist: .venv/with-test .venv/with-dist  ## sdist and wheel; trains with each outside of the checkout
	.ci/dist

bench: .venv/with-bench .venv/with-jax .venv/with-torch  ## dfgen and its peers; ONLY=peers RESULTS=1
	.venv/bin/python benchmarks/run.py $(if $(ONLY),--only $(ONLY)) $(if $(RESULTS),--results)

against: .venv/with-bench .venv/with-jax  ## COMMIT=main~5: the speed of this tree over that of a commit
	.venv/bin/python benchmarks/against.py $(COMMIT) $(if $(ONLY),--only $(ONLY))

survive: .venv/with-bench .venv/with-torch  ## faults injected into dfgen and its peers; RESULTS=1
	.venv/bin/python benchmarks/survive.py $(if $(RESULTS),--results)

soak: SECONDS ?= 1800
soak: .venv/with-bench .venv/with-jax .venv/with-torch  ## SECONDS=1800 of training under faults; RESULTS=1
	.venv/bin/python benchmarks/soak.py --seconds $(SECONDS) $(if $(RESULTS),--results)

clean:                              ## removes everything installed, built or cached here
	rm -rf .venv .venv-* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find dfgen tests benchmarks notebooks -name __pycache__ -prune -exec rm -rf {} +

# The lowest versions have no wheels for Python 3.13.
.venv-lowest/made: PYTHON = python3.11 python3.12 python3

.venv/made .venv-lowest/made .venv-none/made .venv-jax/made .venv-torch/made:
	$(python) -m venv --clear $(@D)
	$(@D)/bin/python $(INSTALL) 'pip>=25.1'  # the first that knows dependency groups
	touch $@

.venv/with-tensorflow: .venv/made pyproject.toml
	@echo 'Installing keras-dfgen[tensorflow] into .venv: minutes, once'
	.venv/bin/python $(INSTALL) --editable '.[tensorflow]'
	touch $@

.venv/with-jax: .venv/with-tensorflow
	.venv/bin/python $(INSTALL) --editable '.[jax]'
	touch $@

.venv/with-%: .venv/with-tensorflow
	@echo 'Installing the dependency group $* into .venv'
	.venv/bin/python $(INSTALL) --editable . --group $*
	touch $@

# The tested version; the newest one may download gigabytes for a GPU.
TORCH := torch==2.13.0

.venv/with-torch: .venv/with-tensorflow
	.venv/bin/python $(INSTALL) $(TORCH) --editable '.[torch]'
	touch $@

# The dependencies of dfgen with reports, and one backend, or none.
.venv-none/with-dfgen: ONE := --editable '.[explore]'
.venv-jax/with-dfgen: ONE := --editable '.[jax,explore]'
.venv-torch/with-dfgen: ONE := $(TORCH) --editable '.[torch,explore]'
.venv-none/with-dfgen .venv-jax/with-dfgen .venv-torch/with-dfgen: %/with-dfgen: %/made pyproject.toml
	@echo 'Installing dfgen into $(@D): minutes, once'
	$(@D)/bin/python $(INSTALL) $(ONE)
	touch $@

.venv-lowest/with-test: .venv-lowest/made pyproject.toml
	.venv-lowest/bin/python .ci/lowest.py > .venv-lowest/lowest.txt
	@echo 'Installing the lowest versions into .venv-lowest: minutes, once'
	.venv-lowest/bin/python $(INSTALL) --constraint .venv-lowest/lowest.txt \
		--editable '.[tensorflow]' --group test
	touch $@
