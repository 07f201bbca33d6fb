# The commands of the project. `make help` lists them.
# Each part keeps its own targets in mk/<part>.mk; this file holds what joins them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
CARGO ?= cargo
BUILD := build
export PATH := $(HOME)/.cargo/bin:$(abspath $(BUILD)/tools/bin):$(PATH)

.PHONY: help run setup test check format lint dependencies docs-fresh soak planted bench bench-budget

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 24

setup: ## install what building and testing need (apt, cargo, go, pip); prints the commands when not root
	@scripts/setup

run: ## install what is missing, build release, start the server on 127.0.0.1:6379
	@scripts/setup build
	@$(CARGO) build --release --locked --quiet -p tidemill
	@exec target/release/tidemill server --bind 127.0.0.1 --port 6379

test: setup test-rust test-end-to-end test-go test-host ## all tests of every part, at most 15 minutes on two cores

check: setup format lint dependencies docs-fresh test experiments-smoke ## exactly what CI runs

format: ## formatting of Rust and Go
	$(CARGO) fmt --all --check
	@unformatted=$$(find clients tests -name '*.go' -print0 | xargs -0r gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "gofmt: $$unformatted"; exit 1; fi

lint: ## lints as errors
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

dependencies: ## crates may depend on each other one way only
	python3 scripts/check-dependencies.py

include mk/server.mk mk/bench.mk mk/host.mk mk/go.mk
