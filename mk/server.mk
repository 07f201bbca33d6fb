# Server, engine, store, resp, rcu and the end-to-end tests.
.PHONY: test-rust test-end-to-end

test-rust: ## unit and integration tests of the Rust workspace
	$(CARGO) test --workspace --locked --quiet

test-end-to-end: ## the real binary against real clients and oracles
	@true

docs-fresh: ## generated documents match their sources
	@true

soak: ## the long versions of the tests
	@true

planted: ## each planted bug must make a test fail
	@true

bench: ## side by side with Valkey and Redis
	@true

bench-budget: ## budgets of the design: figure, verdict, non-zero on a miss
	@true

.PHONY: test-loom-store bench-store planted-store
test-loom-store: ## loom models of the slot word
	RUSTFLAGS="--cfg loom" $(CARGO) test -p tidemill-store --lib --release --target-dir target/loom -- word::model

bench-store: ## keyspace: longest step, lookups, hashes, bytes per key
	$(CARGO) bench -p tidemill-store --bench hashes
	$(CARGO) bench -p tidemill-store --bench memory_mimalloc
	$(CARGO) bench -p tidemill-store --bench memory_jemalloc
	$(CARGO) bench -p tidemill-store --bench keyspace

planted-store: ## each bug planted in the store must make a test fail
	crates/store/tests/planted.sh

planted: planted-store
