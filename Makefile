# The commands of the project. `make help` lists them.
# Each part keeps its own targets in mk/<part>.mk; this file holds what joins them.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
CARGO ?= cargo
BUILD := build
export PATH := $(HOME)/.cargo/bin:$(abspath $(BUILD)/tools/bin):$(PATH)

# Server that `make run` starts, and its port.
SERVER ?= target/release/tidemill
PORT ?= 6379

.PHONY: help run setup test check format tidy tidy-update lint dependencies docs-fresh soak planted

help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 24

setup: ## install what building and testing need (apt, cargo, go, pip); prints the commands when not root
	@scripts/setup

run: ## install what is missing, build release, start the server on 127.0.0.1:6379 (PORT=...)
	@scripts/setup build
	@echo "build: the release build takes three to four minutes the first time"
	$(CARGO) build --release --locked -p tidemill
	@mkdir -p target/data
	@exec $(SERVER) server --bind 127.0.0.1 --port $(PORT) --dir target/data

# Lanes (`a+b,c`) run side by side: what compiles in folders of its own, and what waits most of the time.
TEST_STEPS := setup tidy build-tests,build-server+build-go test-rust,test-go end-to-end test-host
CHECK_STEPS := setup format tidy dependencies docs-fresh lint+build-tests,build-server+build-go+build-experiments \
	test-rust,test-go end-to-end experiments-smoke,valkey-suite-fast+test-host

test: ## all tests of every part; seconds per step and a budget of 12 minutes on two cores (scripts/steps)
	@scripts/steps test $(TEST_STEPS)

check: ## exactly what CI runs; seconds per step and a budget of 30 minutes on two cores (scripts/steps)
	@scripts/steps check $(CHECK_STEPS)

format: ## formatting of Rust and Go
	$(CARGO) fmt --all --check
	@unformatted=$$(find clients tests -name '*.go' -print0 | xargs -0r gofmt -l); \
	if [ -n "$$unformatted" ]; then echo "gofmt: $$unformatted"; exit 1; fi

tidy: ## rules of style: lengths, imports, unsafe code, phrases, dead files (tests/README.md, Tidy); planted bugs apply
	@scripts/planted --applies
	$(CARGO) test --locked --quiet -p tidemill-tidy

tidy-update: ## a shorter tests/tidy/exceptions.txt; GROW=rule,rule lets these rules grow
	TIDEMILL_TIDY_UPDATE=1 TIDEMILL_TIDY_GROW=$(GROW) $(CARGO) test --locked --quiet -p tidemill-tidy --test tidy

lint: ## lints as errors
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

dependencies: ## crates may depend on each other one way only
	python3 scripts/check-dependencies.py

include mk/server.mk mk/bench.mk mk/host.mk mk/go.mk
