# The two commands are `make test` and `make demo`. Each does all its set-up by itself and is safe
# to repeat. PRESET chooses another build for build and unit: make build unit PRESET=dev while you
# work on a file, PRESET=tsan for threads.

PRESET ?= test
BUILD := build/$(PRESET)
VENV := .venv/bin
SEEDS ?= 2000
LEASE_SEEDS ?= 10000
# Two jobs of C++ with gRPC's headers fit into 4 GB; ninja would take cores + 2.
JOBS ?= $(shell nproc)
# Python's tests at once: most of them wait for processes, so twice the cores.
PYTEST_JOBS ?= $(shell expr 2 \* $$(nproc))

.PHONY: test demo setup packages venv wheel build unit swarm lint pytest format clean
.DEFAULT_GOAL := build

test: setup
	@$(MAKE) --no-print-directory build
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory swarm
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory pytest
	@echo "make test: all of it passed"

demo: setup
	@if [ -e examples/demo.py ]; then $(VENV)/python examples/demo.py; \
	 else echo "make demo: ABSENT: examples/demo.py is not in this checkout" >&2; exit 1; fi

setup:
	@tools/setup.sh all
packages venv wheel:
	@tools/setup.sh $@

# Everything, and each header alone.
build: packages
	@test -e $(BUILD)/build.ninja || cmake --preset $(PRESET)
	cmake --build $(BUILD) -j $(JOBS) --target all headers_alone

unit:
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS)

# The simulator runs from the optimized binary in .venv: seeds a second are what counts. Worlds of
# jobs and worlds of leased data, a core each.
swarm:
	@if [ -x $(VENV)/paceline ] && $(VENV)/paceline sim --help >/dev/null 2>&1; then \
	   set -x; code=0; \
	   $(VENV)/paceline sim --leases --seed 1 --seeds $(LEASE_SEEDS) & leases=$$!; \
	   $(VENV)/paceline sim --seed 1 --seeds $(SEEDS) || code=$$?; \
	   wait $$leases || code=$$?; exit $$code; \
	 else echo "swarm: ABSENT: this build has no \`paceline sim\`"; fi

lint: venv
	$(VENV)/ruff check .
	$(VENV)/pyright

pytest: venv
	@dirs=$$(ls -d tests python examples 2>/dev/null); set -x; \
	$(VENV)/python -m pytest -q -n $(PYTEST_JOBS) --dist worksteal $$dirs

format:
	@tools/format.sh --fix
	@if [ -x $(VENV)/ruff ]; then $(VENV)/ruff check --fix --select I .; fi

clean:
	rm -rf build
