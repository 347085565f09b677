# Each target works alone in a fresh clone with Python 3.11 to 3.13 and a C++20 compiler; everything
# else comes into .venv. Choose the interpreter with `make PYTHON=/path/to/python ...`.

PYTHON ?= $(shell sh tools/find_python.sh)
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
RUN := $(BIN)/python
# scikit-build-core names it by the wheel's tag.
BUILD = $(firstword $(wildcard build/$(shell $(RUN) -c "import sys; print('cp%d%d' % sys.version_info[:2])")-*))
# A newer compiler's new warning does not stop a build; .ci/run sets it.
WERROR ?= OFF
# OFF: each source is compiled alone, from this build on (the build folder remembers it).
UNITY ?=
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# Each takes two to four gigabytes of memory.
TEST_JOBS ?= $(shell expr $(JOBS) '>' 8 > /dev/null && echo 8 || echo $(JOBS))
# Processes share the cores: threads that wait for work leave them to others.
SHARING = OMP_WAIT_POLICY=PASSIVE
PYTEST = $(SHARING) $(RUN) -m pytest -q -n $(TEST_JOBS)
CPP_SOURCES = $(shell git ls-files -co --exclude-standard 'src/*.cpp' 'src/*.h' 'tests/unit/*.cpp' 'tests/unit/*.h' 'tests/hooks/*.cpp' 'tests/hooks/*.h')
INSTALLED_FROM = pyproject.toml CMakeLists.txt $(shell find cmake src python tests/hooks -type f -not -name '*.py' -not -name '*.pyc' -not -name '*.so' 2>/dev/null)

export CMAKE_BUILD_PARALLEL_LEVEL = $(JOBS)
export PATH := $(BIN):$(PATH)

.PHONY: help build triton demo test test-cpp test-cpp-build test-python fuzz test-cpython test-public coverage bench format lint check ruff clean
.DEFAULT_GOAL := help

help:
	@echo "make build    the extension, installed in editable form into .venv"
	@echo "make triton   Triton, for the tests of kernels in it, which are skipped without"
	@echo "make demo     four models, eager against Braze"
	@echo "make test     C++ and Python tests, CPython's own tests and a part of PyTorch's Python code compiled, ruff, the checks of the house"
	@echo "make test-public  public functions of PyTorch and libraries, eager against compiled; docs/fidelity.md"
	@echo "make coverage operator by operator how Braze runs it; docs/coverage.md"
	@echo "make fuzz     random programs and graphs with fresh seeds, FUZZ_SECONDS long (ten minutes)"
	@echo "make bench    docs/benchmarks.md anew (half an hour)"
	@echo "make format   clang-format and ruff"
	@echo "make lint     formatting, ruff, the checks of the house, clang-tidy on the core"

$(VENV)/.requirements: requirements-dev.txt
	@test -n "$(PYTHON)" || { echo "No Python 3.11 to 3.13 with headers found; name one: make PYTHON=..." >&2; exit 1; }
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet -r requirements-dev.txt
	@touch $@

$(VENV)/.installed: $(VENV)/.requirements $(INSTALLED_FROM)
	@echo "Compiling the extension; minutes the first time, then only what has changed."
	$(RUN) -m pip install --quiet --no-build-isolation --no-deps --editable . \
		--config-settings=cmake.define.BRAZE_WERROR=$(WERROR) \
		--config-settings=cmake.define.BRAZE_TEST_HOOKS=ON \
		$(if $(UNITY),--config-settings=cmake.define.BRAZE_UNITY=$(UNITY))
	@touch $@

build: $(VENV)/.installed

# Beside the environment, as PyTorch asks whether it is there.
$(VENV)/triton/.installed: requirements-triton.txt $(VENV)/.requirements
	$(RUN) -m pip install --quiet --no-deps --upgrade --target $(VENV)/triton -r requirements-triton.txt
	@touch $@

triton: $(VENV)/triton/.installed

demo: build
	$(RUN) examples/demo.py

test: check ruff triton test-cpp
	$(PYTEST) --dist loadfile tests/tools tests/python
	$(PYTEST) tests/operators
	$(SHARING) $(RUN) tests/public/run.py --quick -j $(JOBS)
	$(MAKE) test-cpython

ruff: $(VENV)/.requirements
	$(BIN)/ruff check .

# The same build folder as the extension's: what both need is compiled once.
test-cpp-build: build
	sh tools/install_gtest.sh
	$(BIN)/cmake -B $(BUILD) -DBRAZE_TESTS=ON > $(BUILD)/configure.log || { cat $(BUILD)/configure.log; exit 1; }
	$(BIN)/cmake --build $(BUILD)

test-cpp: test-cpp-build
	$(BIN)/ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) --progress

test-python: build
	$(PYTEST) --dist loadfile tests/python

# CPython's own tests of lists, generators, exceptions, classes ..., their functions compiled.
test-cpython: build
	sh tools/install_cpython_tests.sh $(RUN)
	$(SHARING) $(RUN) tests/cpython_suite/run.py

# Public functions of PyTorch and of libraries, eager against compiled; docs/fidelity.md anew.
$(VENV)/.requirements-public: requirements-public.txt $(VENV)/.requirements
	$(RUN) -m pip install --quiet --no-deps --upgrade --target $(VENV)/public -r requirements-public.txt
	@touch $@

test-public: build $(VENV)/.requirements-public
	$(RUN) tests/public/run.py -j $(JOBS) --report docs/fidelity.md
	$(RUN) tools/operator_coverage.py --check
	OPERATORS_EVERY=1 $(PYTEST) tests/operators

# How each operator of PyTorch's database runs; docs/coverage.md anew.
coverage: build
	$(RUN) tools/operator_coverage.py

# Random programs and graphs with fresh seeds, for so many seconds; what differs joins the corpora.
FUZZ_SECONDS ?= 600
fuzz: test-cpp-build
	$(RUN) tests/fuzz.py --seconds $(FUZZ_SECONDS) -j $(JOBS) --cpp $(BUILD)

bench: build
	$(RUN) -m bench models overhead compile_time sizes --markdown docs/benchmarks.md

check: $(VENV)/.requirements
	$(RUN) tools/check_house.py

format: $(VENV)/.requirements
	$(BIN)/clang-format -i $(CPP_SOURCES)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix-only --quiet .

# clang-tidy looks at sources one by one, so at the commands of a build without batches.
lint: check ruff
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(CPP_SOURCES)
	$(BIN)/cmake -G Ninja -B build/lint -DPython_EXECUTABLE=$(RUN) -DBRAZE_EXTENSION=OFF -DBRAZE_UNITY=OFF \
		-DBRAZE_WERROR=OFF > /dev/null
	$(RUN) tools/tidy.py build/lint

clean:
	rm -rf build $(VENV)
