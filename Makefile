# The two commands are `make test` and `make demo`. Each does all its set-up by itself and is safe
# to repeat. `make test-all` runs the tests that `make test` leaves out, and no other. PRESET chooses
# another build for build and unit: make build unit PRESET=dev while you work on a file, PRESET=tsan
# for threads.

PRESET ?= test
BUILD := build/$(PRESET)
VENV := .venv/bin
# The swarm's first seeds and their numbers: worlds of jobs, and worlds of leased data.
SEED ?= 1
SEEDS ?= 2000
LEASE_SEED ?= 1
LEASE_SEEDS ?= 10000
# Of worlds of table servers: about a fifth of a second each.
TABLE_SEEDS ?= 10
# Two jobs of C++ with gRPC's headers fit into 4 GB; ninja would take cores + 2.
JOBS ?= $(shell nproc)
# Python's tests at once: most of them wait for processes, so twice the cores.
PYTEST_JOBS ?= $(shell expr 2 \* $$(nproc))

# Which tests build, unit and pytest are about: `test` those that are not long, `test-all` the long
# ones, and `all` both. tests/conftest.py and the ctest label `long` say which are long. The tests
# with the label `heavy` (of wire, master, agent, sim and cli) run in `test` from the optimized
# objects of the wheel, and in `test-all` under sanitizers; cmake/layer.cmake says why. `fresh` is
# for tools/fresh.sh: all units, divided as in `test`, with the long ones and the fuzz corpora.
PART ?= all
TARGETS_test := light_tests
TARGETS_test-all := all headers_alone
TARGETS_all := all headers_alone
TARGETS_fresh := light_tests headers_alone benches
CTEST_test := -LE "long|heavy"
CTEST_test-all := -L "long|heavy"
CTEST_fresh := -LE "heavy|fuzz"
OPTIMIZED_TARGETS := heavy_tests $(if $(filter fresh,$(PART)),fuzz_corpora)
OPTIMIZED_CTEST := $(if $(filter fresh,$(PART)),-L "heavy|fuzz",-L heavy -LE long)
PYTEST_test := -m "not long"
PYTEST_test-all := -m long
REPORT := $(CURDIR)/build/report/$(PART)

.PHONY: help test test-all test-diagnosis test-plan test-fresh test-gpu test-k8s test-ray test-brokers test-sinks test-web test-prometheus test-tf test-ps k8s-binaries demo setup packages venv \
        wheel build unit heavy-units swarm lint pytest operator operator-image operator-unit operator-generate \
        operator-k8s report format clean
.DEFAULT_GOAL := build

help:  ## this list
	@sed -nE 's/^([a-z0-9-]+):[^#]*## (.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 16

# .venv waits for the network, so the sanitized build goes on beside it. The wheel needs .venv.
# pyright has one thread, so the last compilation goes on beside it.
test: packages  ## set-up, build, units, checks, a short swarm, Python tests that are not long
	@$(MAKE) --no-print-directory -j2 venv build PART=test
	@$(MAKE) --no-print-directory wheel
	@$(MAKE) --no-print-directory unit PART=test
	@$(MAKE) --no-print-directory -j2 lint heavy-units PART=test
	@$(MAKE) --no-print-directory swarm SEEDS=300 LEASE_SEEDS=1500
	@$(MAKE) --no-print-directory operator-unit
	@$(MAKE) --no-print-directory pytest PART=test
	@tools/report.py test
	@echo "make test: all of it passed"

test-all: setup  ## everything that `make test` leaves out: long tests, fuzz corpora, more seeds
	@$(MAKE) --no-print-directory build PART=test-all
	@$(MAKE) --no-print-directory unit PART=test-all
	@$(MAKE) --no-print-directory swarm SEED=301 SEEDS=1700 LEASE_SEED=1501 LEASE_SEEDS=8500
	@$(MAKE) --no-print-directory operator-k8s
	@$(MAKE) --no-print-directory pytest PART=test-all
	@if tests/k8s/binaries/programs.py --path >/dev/null; then \
	   $(MAKE) --no-print-directory test-k8s PART=test-all; \
	 else echo "make test-all: KUBERNETES NOT TESTED: its programs are not built;" \
	           "\`make k8s-binaries test-k8s\` (15 minutes once)" >&2; fi
	@if command -v chromium >/dev/null; then \
	   $(MAKE) --no-print-directory test-web; \
	 else echo "make test-all: THE PAGE NOT TESTED: \`apt-get install chromium\`" >&2; fi
	@if command -v prometheus promtool >/dev/null || test -x build/prometheus/usr/bin/promtool; then \
	   $(MAKE) --no-print-directory test-prometheus; \
	 else echo "make test-all: METRICS IN PROMETHEUS NOT TESTED: \`make test-prometheus\`" >&2; fi
	@if test -x build/tf/bin/python; then $(MAKE) --no-print-directory test-tf; \
	 else echo "make test-all: TENSORFLOW NOT TESTED: \`make test-tf\`" >&2; fi
	@tools/report.py test-all
	@echo "make test-all: all of it passed"

# The process-level half is in test and test-all, too, without test_hang_cases.py and most drills.
test-diagnosis: setup  ## all tests of hangs and slow ranks, and all drills: rules, evidence, real ranks
	@test -e $(BUILD)/build.ninja || cmake --preset $(PRESET)
	cmake --build $(BUILD) -j $(JOBS) --target diagnose_test core_test
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) -R '^(diagnose|core)'
	PACELINE_DRILLS=1 $(VENV)/python -m pytest -q -n 2 tests/e2e/test_hangs.py tests/e2e/test_hang_cases.py \
	  tests/e2e/test_run_dir_outage.py tests/e2e/test_slow_ranks.py tests/e2e/test_drills.py tests/e2e/test_live_drills.py \
	  tests/python/rank/test_flight.py

# Its long tests are in no other target: test-all has those that are not long, and the units.
test-plan: setup  ## all tests of parallel plans: search, formats, and ranks that train by plans
	@test -e $(BUILD)/build.ninja || cmake --preset $(PRESET)
	cmake --build $(BUILD) -j $(JOBS) --target plan_test
	ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) -R '^plan'
	PACELINE_PLANS=1 $(VENV)/python -m pytest -q -n 2 tests/python/parallel

test-fresh:  ## `make demo` and the units in fresh minimal roots of Debian 12 and 13
	@tools/fresh.sh bookworm trixie

# One test after another: they share a cluster, and break it.
test-k8s: setup  ## jobs in the pods of a real Kubernetes, and its faults; needs root
	@rm -f $(REPORT)/k8s.xml; mkdir -p $(REPORT)
	$(VENV)/python -m pytest -v --durations=10 --junitxml $(REPORT)/k8s.xml tests/k8s

test-ray: setup  ## jobs on a real Ray of several raylets, and its faults
	@tools/setup.sh redis
	$(VENV)/python -m pytest -v -rs --durations=10 tests/ray

# Jars by Maven, once; without Java or Maven each test says that it was not run.
test-brokers: setup  ## live streams of a real Kafka, RocketMQ and Pulsar, and their faults
	@tools/setup.sh brokers
	$(VENV)/python -m pytest -v -rs --durations=10 tests/brokers

# Spark and Ray in an environment of their own, Flink in jars from Maven; without them each test says
# that it was not run.
test-sinks: setup  ## real Spark, Ray Data and Flink write into a job, and die while they do
	@tools/setup.sh sinks
	$(VENV)/python -m pytest -v -rs --durations=10 tests/sinks

# With the wheel in .venv, or any: `PACELINE_BIN=…/bin/paceline pytest tests/gpu`. Two tests at once
# fit any GPU of 16 GiB.
test-gpu:  ## tests on an NVIDIA GPU, with the wheel that is installed
	$(VENV)/python -m pytest -n 2 -rs tests/gpu tests/python/checkpoint/test_device_saves.py -k gpu

test-web: venv wheel  ## the page of a job, as a file and live, in a browser (needs Debian's chromium)
	PACELINE_WEB_TESTS=1 $(VENV)/python -m pytest -q tests/web

test-prometheus: venv wheel  ## rules, alerts and a scrape by Debian's Prometheus
	@tools/setup.sh prometheus
	PACELINE_PROMETHEUS_TESTS=1 $(VENV)/python -m pytest -q -rs tests/prometheus

test-tf: venv wheel  ## an unchanged Estimator job of the real TensorFlow 2.15.1 (600 MB, Python 3.11)
	@tools/setup.sh tf
	PACELINE_TF_TESTS=1 $(VENV)/python -m pytest -v -rs tests/tf

test-ps: venv wheel  ## workers and table servers are killed and frozen, again and again
	PACELINE_PS_TESTS=1 $(VENV)/python -m pytest -v -rs tests/tables

k8s-binaries:  ## the programs of Kubernetes from source, and with KUEUE=1 Kueue (needs Go)
	@tools/setup.sh k8s
	@tests/k8s/binaries/programs.py $(if $(KUEUE),--kueue)

demo: setup  ## the main job, end to end: three faults, weights bit-identical
	@if [ -e examples/demo.py ]; then $(VENV)/python examples/demo.py; \
	 else echo "make demo: ABSENT: examples/demo.py is not in this checkout" >&2; exit 1; fi

setup:  ## packages, .venv and the wheel
	@tools/setup.sh all
packages:  ## the distribution's libraries and tools
	@tools/setup.sh packages
venv:  ## .venv with torch and the tools
	@tools/setup.sh venv
wheel:  ## the wheel, built and installed into .venv
	@tools/setup.sh wheel

# Everything, and each header alone; with PART=test only what `make test` runs sanitized.
build: packages  ## C++ and its tests, under sanitizers (PRESET=dev, tsan, release, fuzz)
	@test -e $(BUILD)/build.ninja || cmake --preset $(PRESET)
	cmake --build $(BUILD) -j $(JOBS) --target $(TARGETS_$(PART))

unit:  ## ctest: one binary a layer, and the checks of the tree
	@rm -rf $(REPORT)/units $(REPORT)/units.xml; mkdir -p $(REPORT)
	GTEST_OUTPUT=xml:$(REPORT)/units/ ctest --test-dir $(BUILD) --output-on-failure -j $(JOBS) \
	  --output-junit $(REPORT)/units.xml $(CTEST_$(PART))

# The wheel's build folder; an optimized build of its own where the wheel came from elsewhere.
heavy-units: packages  ## the units with the label `heavy`, from the optimized objects of the wheel
	@test -e build/release/build.ninja || cmake --preset release
	cmake --build build/release -j $(JOBS) --target $(OPTIMIZED_TARGETS)
	@rm -rf $(REPORT)/heavy-units $(REPORT)/heavy-units.xml; mkdir -p $(REPORT)
	GTEST_OUTPUT=xml:$(REPORT)/heavy-units/ ctest --test-dir build/release --output-on-failure \
	  -j $(JOBS) --output-junit $(REPORT)/heavy-units.xml $(OPTIMIZED_CTEST)

# The simulator runs from the optimized binary in .venv: seeds a second are what counts. Worlds of
# jobs and worlds of leased data, a core each.
swarm:  ## the simulator over many seeds (SEED, SEEDS, LEASE_SEED, LEASE_SEEDS)
	@if [ -x $(VENV)/paceline ] && $(VENV)/paceline sim --help >/dev/null 2>&1; then \
	   set -x; code=0; \
	   $(VENV)/paceline sim --leases --seed $(LEASE_SEED) --seeds $(LEASE_SEEDS) & leases=$$!; \
	   $(VENV)/paceline sim --seed $(SEED) --seeds $(SEEDS) || code=$$?; \
	   $(VENV)/paceline sim --tables --seeds $(TABLE_SEEDS) || code=$$?; \
	   wait $$leases || code=$$?; exit $$code; \
	 else echo "swarm: ABSENT: this build has no \`paceline sim\`"; fi

lint: venv  ## ruff and pyright
	$(VENV)/ruff check .
	$(VENV)/pyright

pytest: venv  ## Python and process-level tests
	@rm -f $(REPORT)/pytest.xml; mkdir -p $(REPORT); \
	dirs=$$(ls -d tests python examples 2>/dev/null); set -x; \
	$(VENV)/python -m pytest -q -n $(PYTEST_JOBS) --dist worksteal \
	  --junitxml $(REPORT)/pytest.xml --ignore tests/k8s --ignore tests/ray --ignore tests/brokers \
	  --ignore tests/sinks --ignore tests/tf $(PYTEST_$(PART)) $$dirs

# The Kubernetes operator. Its first build compiles Kubernetes' client, which takes minutes; `make
# test` runs the packages that do without the client.
OPERATOR := deploy/kubernetes/operator
IMAGE ?= registry.invalid/paceline-operator:none
OPERATOR_LIGHT := ./decide ./command ./pki ./master ./transport ./series
HAS_GO = command -v go >/dev/null || \
  { echo "$@: SKIPPED: there is no Go here, so the Kubernetes operator is not checked"; exit 0; }

operator:  ## the Kubernetes operator, a static binary, into build/operator
	@mkdir -p build/operator
	cd $(OPERATOR) && CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w" \
	  -o $(CURDIR)/build/operator/paceline-operator .

operator-image: operator  ## its image, as an archive that docker, podman and skopeo read (IMAGE)
	$(OPERATOR)/image.py build/operator/paceline-operator $(IMAGE) build/operator/image.tar

operator-unit:  ## the operator's unit tests, where Go is
	@$(HAS_GO); cd $(OPERATOR) && test -z "$$(gofmt -l . | tee /dev/stderr)" && \
	  go vet $(OPERATOR_LIGHT) && go test $(OPERATOR_LIGHT)

operator-generate:  ## the operator's generated files, and deploy/kubernetes/install.yaml
	cd $(OPERATOR) && go generate .

# K8S_BINARIES: a folder with etcd, kube-apiserver and kube-controller-manager.
operator-k8s:  ## the operator against a real API server, where there is one
	@$(HAS_GO); if [ -z "$(K8S_BINARIES)" ]; then \
	   echo "$@: SKIPPED: K8S_BINARIES names no folder with etcd and kube-apiserver"; exit 0; fi; \
	 set -ex; $(OPERATOR)/generate.sh --check; \
	 $(MAKE) --no-print-directory operator; cd $(OPERATOR); go vet ./...; \
	 K8S_BINARIES=$(K8S_BINARIES) go test -count=1 ./...

report:  ## counts of the last runs by suite, and the ten slowest tests
	@tools/report.py

format:  ## clang-format over src, import order over Python
	@tools/format.sh --fix
	@if [ -x $(VENV)/ruff ]; then $(VENV)/ruff check --fix --select I .; fi

clean:  ## remove build
	rm -rf build
