# Everything that one does with this repository. Each target does all the set-up that it needs.

# make PYTHON=/path/to/python3.12 chooses the interpreter of the virtual environment.
export PYTHON
# How many processes run the tests, and `make simulate`.
WORKERS ?= 2
# How long `make fuzz` looks, for each of its targets, and `make torture` kills; `make explore` looks for 600 unless told.
SECONDS ?= 120
# How many worlds `make simulate` runs, and the seed of the first.
SEEDS ?= 1000
FIRST ?= 0

UV_VERSION := 0.13.7
VENV := .venv
BIN := $(VENV)/bin
BUILD := .build
SOURCES := actors benchmarks broker docs/examples eagleray fuzz pipelines protocol scripts tests

# The tests start thousands of processes, Ray and Spark most of them. Where the environment tells Python to keep no
# bytecode, each would compile all that it imports; what is kept lies outside of the sources.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(CURDIR)/$(BUILD)/bytecode

# Spark and Kafka's own tools ask JAVA_HOME which Java to run.
WITH_JAVA = JAVA_HOME="$$(cat $(BUILD)/java-home 2>/dev/null || echo "$$JAVA_HOME")"

PYTEST = $(WITH_JAVA) $(BIN)/pytest --basetemp=$(BUILD)/test-files

.DEFAULT_GOAL := help
.PHONY: help setup java demo test test-quick explore test-machines test-cluster check format bench bench-client bench-txn bench-kafka bench-spark bench-replication torture simulate \
    fuzz fuzz-messages fuzz-records fuzz-kafka-server fuzz-direct-lane fuzz-small-files fuzz-random wheel lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(VENV)/.installed java ## Create the virtual environment, install everything into it, find Java

demo: setup ## Stream orders through Spark exactly once, while processes are killed
	@$(WITH_JAVA) $(BIN)/python -m eagleray.pipelines.demo

RUN_TESTS = $(BIN)/python scripts/run_tests.py --workers $(WORKERS) --basetemp $(BUILD)/test-files --reports $(BUILD)/test-reports

test: setup ## Run the tests, with PostgreSQL where it may be installed; WORKERS=4 for more processes, ARGS="-k name" to choose
	@$(BIN)/python scripts/ensure_java.py --state $(BUILD) --postgres
	@$(WITH_JAVA) $(RUN_TESTS) -- $(ARGS)

test-quick: $(VENV)/.installed ## Run in some two minutes the tests that need no Ray, no Java and no whole nodes, which is what one does while editing
	@$(RUN_TESTS) --quick

explore: SECONDS := $(if $(filter file,$(origin SECONDS)),600,$(SECONDS))
explore: $(VENV)/.installed ## Look for new examples that break a property; SECONDS=3600 for longer, EXAMPLES=5000, ARGS=tests/property/test_x.py
	@$(BIN)/python scripts/explore.py --seconds $(SECONDS) --workers $(WORKERS) $(if $(EXAMPLES),--examples $(EXAMPLES)) $(ARGS)

test-machines: setup ## Run the tests that kill one of three machines, or Ray's head; they join several Rays, and so run alone
	$(BIN)/python scripts/ensure_java.py --state $(BUILD) --redis
	$(PYTEST) $(ARGS) tests/machines

test-cluster: setup ## Run the tests that set machines up with `ray up`, as root; `make test` leaves them out
	$(PYTEST) $(ARGS) tests/deploy

check: $(VENV)/.installed ## Check format, lint, types and layers
	$(BIN)/ruff format --check $(wildcard $(SOURCES))
	$(BIN)/ruff check $(wildcard $(SOURCES))
	$(BIN)/mypy --explicit-package-bases --follow-imports silent scripts docs/examples tests/compat/kafka_tools --exclude /test_
	scripts/check_installed.sh $(VENV) $(BUILD)/installed

format: $(VENV)/.installed ## Format the code and repair what the linter can
	$(BIN)/ruff check --fix-only $(wildcard $(SOURCES))
	$(BIN)/ruff format $(wildcard $(SOURCES))

bench: setup ## Measure, and print the tables
	$(WITH_JAVA) $(BIN)/python -m benchmarks

bench-client: setup ## Measure our Python clients beside confluent-kafka on one broker; ROUNDS=5
	$(BIN)/python -m benchmarks.client $(if $(ROUNDS),--rounds $(ROUNDS))

bench-txn: setup ## Measure transactions through real actors; PARTS="lanes flush" for some of the tables
	$(WITH_JAVA) $(BIN)/python -m benchmarks.transactions $(PARTS)

bench-kafka: setup ## Measure beside a real Apache Kafka; PARTS="txn1 fetch" TARGETS="kafka colocated" ROUNDS=1
	$(WITH_JAVA) $(BIN)/python -m benchmarks.kafka $(PARTS) $(if $(TARGETS),--targets $(TARGETS)) \
	    $(if $(ROUNDS),--rounds $(ROUNDS))

bench-spark: setup ## Measure beside Spark's own Kafka connector; PARTS="read-sum write" ROWS=100000 ROUNDS=1
	$(WITH_JAVA) $(BIN)/python -m benchmarks.spark $(PARTS) $(if $(ROWS),--rows $(ROWS)) $(if $(ROUNDS),--rounds $(ROUNDS))

bench-replication: setup ## Lose machines, and measure what replicas cost; PARTS="failover closed" KILLS=20 ROUNDS=3
	$(WITH_JAVA) $(BIN)/python -m benchmarks.replication $(PARTS) $(if $(KILLS),--kills $(KILLS)) \
	    $(if $(ROUNDS),--rounds $(ROUNDS))

torture: setup ## Kill actors and clients at random and check what is left; SECONDS=600 SEED=1 MACHINES=3
	$(BIN)/python -m tests.torture --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(if $(MACHINES),--machines $(MACHINES))

simulate: $(VENV)/.installed ## Simulate clusters in which everything goes wrong; SEEDS=10000 FIRST=0, SEED=42 for one again, WORLD=pools
	$(BIN)/python -m tests.simulation $(if $(WORLD),--world $(WORLD)) $(if $(SEED),--seed $(SEED),--seeds $(SEEDS) --first $(FIRST) --workers $(WORKERS))

FUZZED = fuzz-messages fuzz-records fuzz-kafka-server fuzz-direct-lane fuzz-small-files

fuzz: $(FUZZED) ## Look for bytes that break the codec, a node or the reading of small files; SECONDS=600 for longer of each

$(FUZZED): fuzz-%: $(VENV)/.fuzz-installed
	@mkdir -p $(BUILD)/fuzz/$*/corpus
	$(BIN)/python fuzz/fuzz_$(subst -,_,$*).py -max_total_time=$(SECONDS) -timeout=300 -print_final_stats=1 \
	    -artifact_prefix=$(BUILD)/fuzz/$*/ $(BUILD)/fuzz/$*/corpus

fuzz-random: $(VENV)/.installed ## The same for nodes and small files with random bytes, which is faster; FIRST=1000 for other bytes
	@for target in kafka_server direct_lane small_files; do \
	    $(BIN)/python -m tests.fuzz $$target --seed $(FIRST) --seconds $(SECONDS) --kept $(BUILD)/fuzz/random || exit 1; done

wheel: $(VENV)/.installed ## Build the wheel that cluster.yaml installs, in dist/
	rm -rf $(BUILD)/wheel
	@mkdir -p $(BUILD)/wheel
	@printf '[build]\nbuild_base = %s\n[egg_info]\negg_base = %s\n' $(BUILD)/wheel $(BUILD)/wheel >$(BUILD)/wheel/distutils.cfg
	DIST_EXTRA_CONFIG=$(BUILD)/wheel/distutils.cfg $(BIN)/python -m build --wheel --no-isolation --outdir dist .

lock: $(VENV)/.uv-$(UV_VERSION) ## Pin the newest versions that pyproject.toml allows
	scripts/compile_constraints.sh $(VENV) constraints.txt

clean: ## Remove all that the other targets made
	rm -rf $(VENV) $(BUILD) build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find $(wildcard $(SOURCES)) -name __pycache__ -prune -exec rm -rf {} +

# Looks again at every run: it is quick, and Java comes and goes.
java: $(BIN)/python
	@$(BIN)/python scripts/ensure_java.py --state $(BUILD)

$(BIN)/python:
	@scripts/create_venv.sh $(VENV)

$(VENV)/.uv-$(UV_VERSION): $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)
	@touch $@

$(VENV)/.installed: pyproject.toml constraints.txt $(VENV)/.uv-$(UV_VERSION)
	scripts/install.sh $(VENV) --editable '.[spark]' --group dev
	$(BIN)/python scripts/link_types.py
	@touch $@

$(VENV)/.fuzz-installed: $(VENV)/.installed
	scripts/install.sh $(VENV) --group fuzz
	@touch $@
