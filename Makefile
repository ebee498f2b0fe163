# Everything runs in .venv, which each target fills with what it needs, once:
# the empty file .venv/with-test says that keras-dfgen[test] is installed there.
.PHONY: demo test test-slow test-all test-backends test-nightly test-alone test-clients test-browser \
	test-lowest mutants lint notebooks docs dist bench survive soak fuzz clean
.NOTPARALLEL:
.DELETE_ON_ERROR:

export KERAS_BACKEND := tensorflow
export TF_CPP_MIN_LOG_LEVEL ?= 3
# The tests compile once: without the files of bytecode each process spends 9 s on it.
unexport PYTHONDONTWRITEBYTECODE

# Those that TensorFlow has wheels for come first: python3 may be newer than any of them.
PYTHON ?= python3.13 python3.12 python3.11 python3
# The first of PYTHON that is a Python we run on.
python = $(or $(shell for python in $(PYTHON); do \
	"$$python" -c 'import ensurepip, sys; sys.exit(sys.version_info < (3, 11))' \
	2> /dev/null && echo "$$python" && break; done),$(error dfgen needs Python 3.11 or newer, \
	with venv. Found none as: $(PYTHON). Install one, or say make PYTHON=/path/to/python3))
INSTALL := -m pip install --quiet --disable-pip-version-check
# Each process takes 2 GB, and waits a third of its time for others. Tests of a file share what is
# costly to make: they stay together, until one process has nothing left to do and takes some of
# another's.
export PARALLEL := -n 3 --dist worksteal
PYTEST := .venv/bin/python -m pytest $(PARALLEL)

demo: .venv/with-tensorflow         ## trains models on scanned digits
	.venv/bin/dfgen demo

test: .venv/with-test               ## the tests on TensorFlow, without the slow ones
	$(PYTEST)

test-slow: .venv/with-test          ## the slow ones on TensorFlow, but those that run on each backend
	$(PYTEST) -m "slow and not backend and not browser"

test-all: .venv/with-test           ## all tests on TensorFlow, then those of each Keras backend
	$(PYTEST) -m ""
	$(MAKE) test-backends

test-backends: .venv/with-test .venv/with-jax .venv/with-torch
	.ci/backends

test-nightly: .venv/with-test .venv/with-jax .venv/with-torch  ## on the newest keras-nightly
	.ci/nightly $(NIGHTLY)

test-alone: .venv/with-test .venv/with-jax .venv-none/with-dfgen .venv-jax/with-dfgen .venv-torch/with-dfgen
	.ci/alone

test-clients: .venv/with-test .venv/with-clients .venv/with-jax .venv/with-torch
	.ci/clients

test-browser: .venv/with-test .venv/with-docs  ## `dfgen report` and the site in Chromium, skipped without
	-$(MAKE) .venv/with-browser
	.ci/browser

test-lowest: .venv-lowest/with-test  # with the lowest versions that pyproject.toml allows
	.venv-lowest/bin/python -m pytest $(PARALLEL)

mutants: .venv/with-test .venv/with-mutants  ## ROOM=loading/order: what no test of it sees
	.venv/bin/python tests/mutants.py $(ROOM)

lint: .venv/with-test               ## style, format, types
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy

notebooks: .venv/with-notebook      ## executes them; what they show is thrown away
	.venv/bin/jupyter-nbconvert --to notebook --execute --stdout notebooks/*.ipynb > /dev/null

docs: .venv/with-docs               ## the site, in build/docs: every warning an error, links checked
	rm -rf build/docs
	.venv/bin/python -m sphinx --quiet --fail-on-warning --keep-going docs build/docs
	@echo 'See build/docs/index.html'

dist: .venv/with-test .venv/with-dist  ## sdist and wheel, inspected, and trained with where no checkout is
	.ci/dist

bench: .venv/with-bench .venv/with-jax .venv/with-torch  ## dfgen beside bare loops and peers; ONLY=peers,cache and RESULTS=1
	.venv/bin/python benchmarks/run.py $(if $(ONLY),--only $(ONLY)) $(if $(RESULTS),--results)

survive: .venv/with-bench .venv/with-torch  ## faults done to dfgen and its peers; RESULTS=1 writes them down
	.venv/bin/python benchmarks/survive.py $(if $(RESULTS),--results)

soak: SECONDS ?= 1800
soak: .venv/with-bench .venv/with-jax .venv/with-torch  ## SECONDS=1800 of training while things go wrong; RESULTS=1
	.venv/bin/python benchmarks/soak.py --seconds $(SECONDS) $(if $(RESULTS),--results)

fuzz: SECONDS ?= 60
fuzz: .venv/with-test               ## SECONDS=60 of damaged files, from where the last run ended
	.venv/bin/python tests/fuzz.py $(SECONDS)

clean:                              ## removes all that was installed, built or cached here
	rm -rf .venv .venv-* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find dfgen tests benchmarks notebooks -name __pycache__ -prune -exec rm -rf {} +

# The lowest versions have no wheels for Python 3.13.
.venv-lowest/made: PYTHON = python3.11 python3.12 python3

.venv/made .venv-lowest/made .venv-none/made .venv-jax/made .venv-torch/made:
	$(python) -m venv --clear $(@D)
	touch $@

.venv/with-tensorflow: .venv/made pyproject.toml
	@echo 'Installing keras-dfgen[tensorflow] into .venv: minutes, once'
	.venv/bin/python $(INSTALL) --editable '.[tensorflow]'
	touch $@

.venv/with-%: .venv/with-tensorflow
	@echo 'Installing keras-dfgen[$*] into .venv'
	.venv/bin/python $(INSTALL) --editable '.[$*]'
	touch $@

# The tested version: the newest may come as gigabytes for a GPU.
TORCH := torch==2.13.0

.venv/with-torch: .venv/with-tensorflow
	.venv/bin/python $(INSTALL) $(TORCH) --editable '.[torch]'
	touch $@

# What dfgen needs and one backend, or none, and nothing else.
.venv-jax/with-dfgen: ONE := --editable '.[jax]'
.venv-torch/with-dfgen: ONE := $(TORCH) --editable '.[torch]'
.venv-none/with-dfgen .venv-jax/with-dfgen .venv-torch/with-dfgen: %/with-dfgen: %/made pyproject.toml
	@echo 'Installing dfgen into $(@D): minutes, once'
	$(@D)/bin/python $(INSTALL) $(or $(ONE),--editable .)
	touch $@

.venv-lowest/with-test: .venv-lowest/made pyproject.toml
	.venv-lowest/bin/python .ci/lowest.py > .venv-lowest/lowest.txt
	@echo 'Installing keras-dfgen[test] with the lowest versions into .venv-lowest: minutes, once'
	.venv-lowest/bin/python $(INSTALL) --constraint .venv-lowest/lowest.txt \
		--editable '.[tensorflow,test]'
	touch $@
