# Everything here sets itself up: it needs Python 3.11 or newer and make, and for the integration tests Go.
# The first run makes .venv and installs the pinned requirements; later runs find it and are quick.

PYTHON ?= $(firstword $(foreach p,python3.11 python3.12 python3.13 python3,$(if $(shell $(p) -c 'import sys; print(sys.version_info >= (3, 11) or "")' 2>/dev/null | grep True),$(p))))
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check -q

# Come with the command line of the CEL engine, of which only the extension module is loaded (docs/adr/0010-dependencies.md).
NEVER_IMPORTED := annotated-doc annotated-types prompt-toolkit pydantic pydantic-core shellingham typer typing-inspection wcwidth

export GOTOOLCHAIN = auto
# Another one each time, the same for all processes of a test run: they must find the same tests in the same order.
ifndef PYTHONHASHSEED
export PYTHONHASHSEED := $(shell od -An -N2 -tu2 /dev/urandom | tr -d ' ')
endif

# One process more than there are cores: half of the time of an integration test it waits for a control plane.
WORKERS ?= $(shell cores=$$(nproc 2>/dev/null || echo 2); echo $$((cores < 7 ? cores + 1 : 8)))

.PHONY: demo demo-plan messages cluster-demo test test-all check page page-types screenshots format bench bench-karpenter oracle oracle-disruption disruption-clusters karpenter-crds mutants faults fuzz law-worlds two-processes stability simulated-worlds chaos chaos-proof crds wheel image-steps awscli lock clean

## demo: a sale day simulated: reservations fill up, spot takes over, EC2 takes it back, and the night after; with a page to look at
demo: $(VENV)/.run
	@$(BIN)/wain simulate examples/sale-day/scenario.yaml --report build/sale-day.html

## demo-plan: a reservation that fills up and falls back, one pod explained, and a manifest with mistakes
demo-plan: $(VENV)/.run
	@WAIN=$(BIN)/wain sh examples/demo-plan.sh

## cluster-demo: a control plane on this machine, wain run beside it, and a Deployment that gets nodes (needs Go)
cluster-demo: $(VENV)/.dev
	@PYTHONPATH=. $(BIN)/python scripts/cluster_demo.py

## test: every test that this machine can run, on all its cores: ARGS="-n 0" or WORKERS=0 for one process, ARGS=--durations=20
test: $(VENV)/.dev
	@command -v npm >/dev/null && $(MAKE) --no-print-directory web/node_modules/.installed || true
	@PIP_RETRIES=1 PIP_DEFAULT_TIMEOUT=10 $(MAKE) --no-print-directory awscli || echo "without the AWS CLI: its tests are skipped"
	PYTHONHASHSEED=$(PYTHONHASHSEED) $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup $(ARGS)

## test-all: the same with every interpreter of 3.11 to 3.13 that is found
test-all:
	@for v in 3.11 3.12 3.13; do \
	  if python$$v -c pass 2>/dev/null; then \
	    echo "== Python $$v"; $(MAKE) --no-print-directory test PYTHON=python$$v VENV=.venv-$$v || exit 1; \
	  else echo "== Python $$v is not on this machine: skipped"; fi; done

## check: formatting, lint, types, import rules, private words, depth of inheritance, repeated names, and that generated files are up to date
check: $(VENV)/.dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/check_words.py
	$(BIN)/python scripts/check_inheritance.py
	$(BIN)/python scripts/check_names.py
	$(BIN)/wain crds --check deploy/chart/crds
	$(BIN)/python scripts/make_catalogue.py --check
	$(BIN)/python scripts/make_simulation_schema.py --check
	$(BIN)/python scripts/make_reference.py --check
	$(BIN)/python scripts/update_readme.py --check
	$(BIN)/python scripts/build_page.py --check
	$(BIN)/python scripts/picture_digests.py
	@$(MAKE) --no-print-directory page-types

## page: build the report page from web/src anew
page: $(VENV)/.run
	$(BIN)/python scripts/build_page.py

## page-types: the types of the page's modules, checked by tsc (needs Node)
page-types:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory web/node_modules/.installed && cd web && npx --no-install tsc --noEmit; \
	  else echo "the types of web/src are not checked: Node is not on this machine"; fi

## screenshots: take the pictures of docs/images anew (needs Chromium)
screenshots: $(VENV)/.dev
	PYTHONPATH=. $(BIN)/python scripts/make_screenshots.py

web/node_modules/.installed: web/package-lock.json
	cd web && npm ci --silent
	@touch $@

## messages: write the golden messages, the examples' plans and the README's outputs again; review the difference
messages: $(VENV)/.dev
	UPDATE_MESSAGES=1 $(BIN)/python -m pytest -q tests/scenarios/test_messages.py
	$(BIN)/python -m tests.scenarios.test_examples
	$(BIN)/python scripts/update_readme.py

## format: rewrite the code in the agreed style
format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

## bench: how fast, and how much memory
bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks $(ARGS)

## bench-karpenter: the same pods through Karpenter's own scheduler and through ours (needs Go); ARGS=cluster: its controllers and wain run, each on a real control plane
bench-karpenter: $(VENV)/.dev
	$(BIN)/python -m benchmarks.karpenter $(ARGS)

## oracle: random worlds through Karpenter's own scheduler and ours (needs Go): SEEDS=200 PROFILE="spread mixed"
oracle: $(VENV)/.dev
	$(BIN)/python -m tests.oracle --seeds $(or $(SEEDS),200) $(if $(PROFILE),--profile $(PROFILE)) $(ARGS)

## oracle-disruption: random clusters through Karpenter's own disruption methods and ours (needs Go): SEEDS=20 PROFILE="spot drift"
oracle-disruption: $(VENV)/.dev
	$(BIN)/python -m tests.oracle.disruption --seeds $(or $(SEEDS),20) $(if $(PROFILE),--profile $(PROFILE)) $(ARGS)

## disruption-clusters: commands of disruption on 5,000 random clusters, checked by the rules; three minutes: CLUSTERS=20000
disruption-clusters: $(VENV)/.dev
	DISRUPTION_CLUSTERS=$(or $(CLUSTERS),5000) $(BIN)/python -m pytest tests/properties/test_disruption_commands.py $(ARGS)

## karpenter-crds: 19,000 changed manifests, judged by us and by an API server with Karpenter's CRDs (needs Go)
karpenter-crds: $(VENV)/.dev
	WAIN_MUTANTS=all $(BIN)/python -m pytest tests/integration/test_karpenter_crds.py -o junit_family=xunit1 $(ARGS)

## mutants: plants small faults and counts those that no test notices; an hour or more: ARGS="--packages core --seed 2"
mutants: $(VENV)/.dev
	$(BIN)/python scripts/mutants.py $(ARGS)

## faults: plants the sixty listed faults in launches and recovery and counts those that make a test fail: ARGS="recovery-3"
faults: $(VENV)/.dev
	$(BIN)/python scripts/planted_faults.py $(ARGS)

## two-processes: 2,000 schedules of two processes that launch the same claims; ten minutes: SEEDS=100
two-processes: $(VENV)/.dev
	TWO_PROCESS_SEEDS=$(or $(SEEDS),2000) $(BIN)/python -m pytest tests/properties/test_two_processes.py $(ARGS)

## stability: 200 random clusters that are left alone must come to rest within an hour; ten minutes: CLUSTERS=1000
stability: $(VENV)/.dev
	RESTING_CLUSTERS=$(or $(CLUSTERS),200) $(BIN)/python -m pytest tests/properties/test_stability.py $(ARGS)

## simulated-worlds: 200 random scenarios with faults, restarts and outages, held to the laws; four minutes: WORLDS=1000
simulated-worlds: $(VENV)/.dev
	SIMULATED_WORLDS=$(or $(WORLDS),200) $(BIN)/python -m pytest tests/properties/test_simulated_worlds.py $(ARGS)

## law-worlds: laws 23 and 25 on random worlds, with a random hash seed for every thousand; 2,000 take a minute: WORLDS=200000 JOBS=2
law-worlds: $(VENV)/.dev
	$(BIN)/python -m tests.worlds --worlds $(or $(WORLDS),2000) --jobs $(or $(JOBS),1) $(ARGS)

## fuzz: random input for every command, and random calls to the emulator: SECONDS=600
fuzz: $(VENV)/.dev
	$(BIN)/python -m tests.fuzz --seconds $(or $(SECONDS),60) $(ARGS)

## chaos: random worlds with faults at every call, restarts, late watches and clock steps; ten minutes: SEEDS=500 JOBS=2, or SEED=7
chaos: $(VENV)/.dev
	$(BIN)/python -m tests.chaos --seeds $(or $(SEEDS),500) --first $(or $(FIRST),0) --jobs $(or $(JOBS),1) $(if $(SEED),--seed $(SEED)) $(if $(BUG),--bug $(BUG)) $(ARGS)

## chaos-proof: plants bugs in the controllers, one by one, each of which make chaos must find within 200 seeds: BUG=name
chaos-proof: $(VENV)/.dev
	$(BIN)/python -m tests.chaos.proof --seeds $(or $(SEEDS),200) $(if $(BUG),--bug $(BUG)) $(ARGS)

## crds: write deploy/chart/crds anew from the wire types
crds: $(VENV)/.run
	$(BIN)/wain crds --output deploy/chart/crds

## wheel: the package as a file in dist/, which pip installs
wheel: $(VENV)/.run
	$(PIP) wheel --no-deps --no-build-isolation --wheel-dir dist .

## image-steps: the steps of the Dockerfile in a new folder, without a container engine: FOLDER=/tmp/image
image-steps: $(VENV)/.run
	$(BIN)/python scripts/image_steps.py $(or $(FOLDER),$(shell mktemp -d))

## awscli: the AWS command line in an environment of its own, for the test that uses it
awscli: $(VENV)-awscli/.made

## lock: pin requirements/*.in anew, with hashes for Python 3.11 to 3.13
lock:
	$(PYTHON) -m venv $(VENV)-lock && $(VENV)-lock/bin/pip install -q uv
	cd requirements && for f in run build dev awscli; do ../$(VENV)-lock/bin/uv pip compile -q --upgrade --universal --python-version 3.11 \
	  --generate-hashes --no-annotate --no-emit-index-url --custom-compile-command "make lock" \
	  $$(test $$f = run && printf -- '--no-emit-package %s ' $(NEVER_IMPORTED)) $$f.in -o $$f.txt; done
	rm -rf $(VENV)-lock

clean:
	rm -rf .venv .venv-* .mutants .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: install it, or name it with make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: $(VENV)/bin/python requirements/run.txt requirements/build.txt pyproject.toml
	$(PIP) install --no-deps --require-hashes -r requirements/run.txt -r requirements/build.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	$(BIN)/python -m compileall -q src  # as an installed package would be: starting takes half as long
	@touch $@

$(VENV)/.dev: $(VENV)/.run requirements/dev.txt
	$(PIP) install --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)-awscli/.made: requirements/awscli.txt
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed: install it, or name it with make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)-awscli
	$(VENV)-awscli/bin/python -m pip --disable-pip-version-check -q install --require-hashes -r requirements/awscli.txt
	@touch $@
