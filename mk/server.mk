# Server, engine, store, resp, rcu and the end-to-end tests.
.PHONY: test-rust test-end-to-end

test-rust: ## unit and integration tests of the Rust workspace
	$(CARGO) test --workspace --locked --quiet

END_TO_END := ./clients ./differential ./observe ./expiry ./process ./packaging ./abuse ./linearizability

test-end-to-end: ## the real binary beside real clients
	$(CARGO) build --release --locked --quiet -p tidemill
	@$(MAKE) --no-print-directory end-to-end

.PHONY: deb
deb: ## Debian package of the release build, in target/deb
	$(CARGO) build --release --locked --quiet -p tidemill
	@scripts/deb target/release/tidemill target/deb

.PHONY: docs-fresh
docs-fresh: ## generated documents match their sources
	$(CARGO) test --locked --quiet -p tidemill-engine config::
	$(CARGO) test --locked --quiet -p tidemill-host document

.PHONY: fuzz-resp
fuzz-resp: ## the fuzz targets of crates/resp for FUZZ_SECONDS (60) each, on the stable toolchain
	FUZZ_SECONDS=$${FUZZ_SECONDS:-60} SEED=$${SEED:-$$RANDOM} $(CARGO) test --locked -p tidemill-resp --test fuzz -- --nocapture

# The end-to-end tests start TIDEMILL_SERVER, by default target/release/tidemill; the oracles come from `make setup`.
.PHONY: end-to-end test-harness
end-to-end: ## all end-to-end tests against TIDEMILL_SERVER
	cd tests && go vet ./... && go test -count=1 -p 1 $(END_TO_END)

test-harness: ## the end-to-end tests with Valkey in the server's place: shows that they pass on a right server
	cd tests && TIDEMILL_SERVER=$(abspath $(BUILD)/tools/bin/valkey-server) go test -count=1 -p 1 ./differential ./linearizability
	scripts/planted --self-test

soak: test-asan ## the long versions of the tests
	cd tests && go test -count=1 -p 1 -timeout 4h ./differential -sequences 200000 -seed 0
	cd tests && go test -count=1 -p 1 -timeout 4h ./linearizability -duration 60s -flavours qsbr,memb,mb,bp,signal

.PHONY: test-repeat
test-repeat: ## every suite TIMES (20) times beside two busy processes, and on one CPU; what failed how often; hours
	@$(CARGO) build --release --locked --quiet -p tidemill
	@scripts/test-repeat -n $(or $(TIMES),20) $(SUITES)

soak: test-repeat

planted: ## each planted bug must make a test fail
	@scripts/planted

bench: ## side by side with Valkey and Redis
	@$(CARGO) build --release --locked --quiet -p tidemill
	cd tests && go run ./bench

bench-budget: ## budgets of the design: figure, verdict, non-zero on a miss
	@$(CARGO) build --release --locked --quiet -p tidemill
	cd tests && go run ./bench --budget

.PHONY: bench-instructions
bench-instructions: ## instructions per operation by function, under callgrind: repeats on a busy machine
	@$(CARGO) build --release --locked --quiet -p tidemill
	@scripts/instructions-per-operation.py target/release/tidemill

.PHONY: bench-coroutines bench-collections bench-fairness bench-large bench-cores
bench-coroutines: ## a worker as event loop and as coroutines: CPU per operation, verdict; 3 minutes
	$(CARGO) bench -p tidemill-server --bench coroutines --locked

bench-collections: ## hashes and lists of three sizes beside Valkey: CPU per operation, verdict; 5 minutes
	@$(CARGO) build --release --locked --quiet -p tidemill
	cd tests && go run ./bench --parts collections

bench-fairness: ## p99 of clients beside one that floods, sends or reads huge data: verdict; 4 minutes
	@$(CARGO) build --release --locked --quiet -p tidemill
	cd tests && go run ./bench --parts fairness

bench-large: ## values of 10 KiB to 1 MiB, pipeline 100, beside Valkey and Redis; 2 minutes
	@$(CARGO) build --release --locked --quiet -p tidemill
	cd tests && go run ./bench --parts large

bench-cores: ## two workers on both cores beside Valkey's I/O threads; 4 minutes
	@$(CARGO) build --release --locked --quiet -p tidemill
	cd tests && go run ./bench --parts cores

.PHONY: test-loom bench-rcu soak-rcu

test-loom: ## models of the RCU grace period, every interleaving within bounds
	RUSTFLAGS="--cfg loom" $(CARGO) test -p tidemill-rcu --locked --quiet --release --target-dir target/loom --test loom_grace

soak-rcu: ## torture test of all RCU flavours, TIDEMILL_TORTURE_SECONDS each (60)
	TIDEMILL_TORTURE_SECONDS=$${TIDEMILL_TORTURE_SECONDS:-60} $(CARGO) test -p tidemill-rcu --locked --quiet --release --test torture --test litmus

bench-rcu: ## RCU beside liburcu, interleaved: reads and writes per second, verdict; 4 minutes
	$(CARGO) bench -p tidemill-rcu --locked

.PHONY: test-loom-store bench-store planted-store
test-loom-store: ## loom models of the slot word and the expiry floor
	RUSTFLAGS="--cfg loom" $(CARGO) test -p tidemill-store --lib --release --target-dir target/loom -- word::model

.PHONY: bench-allocators
bench-allocators: ## memory and time of jemalloc, mimalloc and the system's allocator, mixed sizes, MINUTES (5): verdict
	$(CARGO) bench -p tidemill-store --bench allocators --locked -- $(or $(MINUTES),5)

bench-store: ## keyspace: longest step, lookups, hashes, bytes per key
	$(CARGO) bench -p tidemill-store --bench hashes
	$(CARGO) bench -p tidemill-store --bench memory_mimalloc
	$(CARGO) bench -p tidemill-store --bench memory_jemalloc
	$(CARGO) bench -p tidemill-store --bench keyspace

planted-store: ## each bug planted in the store must make a test fail
	crates/store/tests/planted.sh

planted: planted-store

.PHONY: test-asan test-tsan
test-asan: ## stress tests of rcu, store and engine under AddressSanitizer; 10 minutes with the build
	@scripts/sanitize address

test-tsan: ## the same under ThreadSanitizer, not clean yet: scripts/sanitize says what it cannot see
	@scripts/sanitize thread
