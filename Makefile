# Kleene: `make demo` on a machine with Python >= 3.11 and Java >= 17 does everything from the environment on.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help venv java browser demo test quick fast smoke matrix lint format bench clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

venv: $(STAMP) ## create .venv and install Kleene with its Spark and development dependencies

$(STAMP): pyproject.toml
	@command -v $(PYTHON) >/dev/null 2>&1 || { \
	  echo "'$(PYTHON)' was not found. Install Python 3.11 or newer, or name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Kleene needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version 2>&1)." >&2; \
	  echo "Name another one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { \
	  echo "Could not create $(VENV); on Debian and Ubuntu the module is a package of its own: sudo apt install python3-venv" >&2; \
	  rm -rf $(VENV); exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[spark,dev]'
	@touch $@

# Spark runs on a JVM. JAVA_HOME wins over java on PATH, as it does for Spark itself.
java:
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	command -v "$$java" >/dev/null 2>&1 || { \
	  if [ -n "$$JAVA_HOME" ]; then echo "JAVA_HOME is set to '$$JAVA_HOME', but there is no Java in it." >&2; \
	  else echo "Java was not found: neither JAVA_HOME nor java on PATH." >&2; fi; \
	  $(JAVA_HELP); exit 1; }; \
	version=$$("$$java" -version 2>&1 | sed -n 's/.* version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1); \
	if [ -z "$$version" ] || [ "$$version" -lt 17 ]; then \
	  echo "Spark needs Java 17 or newer; '$$java' is version '$${version:-unknown}'." >&2; $(JAVA_HELP); exit 1; fi

define JAVA_HELP
{ echo "Install Java 17 or newer, then try again:"; \
  echo "  Debian, Ubuntu   sudo apt install openjdk-17-jre-headless"; \
  echo "  macOS            brew install openjdk@17   (and follow its note on JAVA_HOME)"; \
  echo "  any, with SDKMAN sdk install java 17-tem"; } >&2
endef

# The match explorer is tested in a real browser. Without one its tests are skipped, and say so; where CI=true they fail.
BROWSERS := chromium chromium-browser google-chrome google-chrome-stable chrome

browser: ## find Chromium or Chrome for the tests of the match explorer, or install it where that is possible
	@for name in "$$KLEENE_BROWSER" $(BROWSERS); do [ -n "$$name" ] && command -v "$$name" >/dev/null 2>&1 && exit 0; done; \
	[ -x "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" ] && exit 0; \
	if command -v apt-get >/dev/null 2>&1 && [ "$$(id -u)" = 0 ]; then \
	  echo "Installing Chromium for the tests of the match explorer."; \
	  apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium >/dev/null && exit 0; fi; \
	{ echo "No Chromium or Chrome was found: the tests of the match explorer in a browser will be skipped. To run them:"; \
	  echo "  Debian, Ubuntu   sudo apt install chromium"; \
	  echo "  macOS            brew install --cask google-chrome"; \
	  echo "  any              KLEENE_BROWSER=/path/to/chrome make test"; } >&2

demo: java $(STAMP) ## an RFID retail day: find the shoplifters and the misplaced items on Spark
	$(BIN)/kleene demo

# Two processes share the tests, those with a JVM too: `tests/support/parts.py` says which go together.
test: java browser $(STAMP) ## every test except the long ones
	$(PYTEST) -q -n 2 --dist loadgroup -m "not long and not smoke"

QUICK := tests/unit tests/embedded tests/test_cases.py

# K=scan: the tests and cases whose names have `scan`, the slow ones too; K=engine/events: the tests of that package.
quick: $(STAMP) ## unit tests and the cases on three routes, in a minute
	$(PYTEST) -q -n 2 --dist loadgroup --routes oracle,embedded,stream-2 \
	  -m "not spark and not long$(if $(K),, and not slow)" $(if $(and $(K),$(wildcard tests/unit/$(K)/.)),tests/unit/$(K),$(if $(K),-k "$(K)") $(QUICK))

fast: $(STAMP) ## the tests that need no JVM, in minutes
	$(PYTEST) -q -n 2 --dist loadgroup -m "not spark and not long"

smoke: java $(STAMP) ## the oldest supported Spark: what must work on each, in a minute
	$(BIN)/python tests/support/matrix.py smoke

matrix: java $(STAMP) ## all tests with the oldest and the newest Spark, Python and packages that are supported; takes hours
	$(BIN)/python tests/support/matrix.py

lint: $(STAMP) ## style, types and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## rewrite the code in the house style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: java $(STAMP) ## the benchmarks, with the systems they compare against
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[bench]'
	$(BIN)/kleene bench

clean: ## remove the environment, caches and generated data
	rm -rf $(VENV) .matrix build dist demo-data spark-warehouse metastore_db derby.log artifacts
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +
