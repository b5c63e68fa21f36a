# Thin front end: the work is done by CMake's presets and the scripts in tools/.
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all test-isolated test-ecosystem bench docs lint format wheel clean

STAMP := .venv/.setup-done

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## Install system packages, .venv and the package (once)

$(STAMP): pyproject.toml requirements-dev.txt tools/setup.sh
	@tools/setup.sh
	@touch $@

demo: $(STAMP) ## Train a small network on the device and on the CPU
	@tools/demo.sh

test: $(STAMP) ## Run the tests under release, bare, asan and tsan, then Python's
	@tools/test.sh

test-all: $(STAMP) ## Run the tests, the full coverage, a soak and stress tests
	@tools/test.sh --all

test-isolated: $(STAMP) ## Run the tests on devices in processes of their own
	@tools/test.sh --isolated

test-ecosystem: $(STAMP) ## Run the tests with transformers, Lightning and others
	@tools/install.sh
	@tools/test_ecosystem.sh

docs: $(STAMP) ## Build the documentation as a site
	@tools/docs.sh

bench: $(STAMP) ## Run the benchmarks of a release build and report
	@tools/bench.sh

lint: $(STAMP) ## Check formatting, types and, with clang-tidy, the C++ code
	@tools/lint.sh

format: $(STAMP) ## Format the C, C++ and Python files
	@tools/format.sh

wheel: $(STAMP) ## Build a wheel into dist/
	@tools/wheel.sh

clean: ## Remove everything that was built (.venv stays)
	rm -rf build dist
