# Server, engine, store, resp, rcu and the end-to-end tests.
.PHONY: build-tests build-server test-rust

# Compilation apart from running, so that its progress is seen and the seconds of each are told.
build-tests: ## compile the tests of the Rust workspace
	$(CARGO) test --workspace --locked --no-run

build-server: ## release build of the binary
	$(CARGO) build --release --locked -p tidemill

test-rust: ## unit and integration tests of the Rust workspace
	$(CARGO) test --workspace --exclude tidemill-tidy --locked --quiet

# The longest first: two run at a time, of which most wait most of the time.
END_TO_END := ./linearizability ./process ./differential ./durability ./bench ./clients ./commandline ./observe ./expiry ./pubsub ./tls ./packaging ./operations ./abuse

.PHONY: deb
deb: build-server ## Debian package of the release build, in target/deb
	@scripts/deb target/release/tidemill target/deb

.PHONY: container
container: build-server ## container image of the release build, from nothing but its files (podman, buildah or docker)
	@scripts/container target/release/tidemill

.PHONY: docs-fresh
docs-fresh: ## links and paths in documents lead somewhere; test-rust compares generated documents with their sources
	scripts/check-documents.py

.PHONY: fuzz-resp fuzz-rdb
fuzz-resp fuzz-rdb: fuzz-%: ## the fuzz targets of crates/resp, crates/rdb for FUZZ_SECONDS (60) each, on the stable toolchain
	FUZZ_SECONDS=$${FUZZ_SECONDS:-60} SEED=$${SEED:-$$RANDOM} $(CARGO) test --locked -p tidemill-$* --test fuzz -- --nocapture

# The end-to-end tests start TIDEMILL_SERVER, by default target/release/tidemill; the oracles come from `make setup`.
.PHONY: end-to-end test-harness
end-to-end: ## all end-to-end tests against TIDEMILL_SERVER
	cd tests && go vet ./... && go test -count=1 -timeout 30m -p 2 $(END_TO_END)

test-harness: ## the end-to-end tests with Valkey in the server's place: shows that they pass on a right server
	cd tests && TIDEMILL_SERVER=$(abspath $(BUILD)/tools/bin/valkey-server) go test -count=1 -p 1 ./differential ./linearizability
	scripts/planted --self-test

.PHONY: valkey-suite valkey-suite-fast
valkey-suite: build-server ## Valkey's own Tcl suite with Tidemill in the server's place, 10 minutes; UNITS="types unit/multi" for some
	python3 tests/valkey/run.py $(UNITS)

valkey-suite-fast: build-server ## the units of the suite that `make check` runs, at most 4 minutes
	python3 tests/valkey/run.py --fast $(UNITS)

soak: valkey-suite client-suites

.PHONY: client-suites
client-suites: build-server ## redis-py's and go-redis's own tests, beside Valkey, 10 minutes; SUITES="go-redis" for one of them
	python3 tests/clients/suites.py $(SUITES)

soak: test-asan test-tsan ## the long versions of the tests
	cd tests && go test -count=1 -p 1 -timeout 4h ./differential -sequences 200000 -seed 0
	cd tests && go test -count=1 -p 1 -timeout 1h ./durability -kills 70 -stepkills 20 -sequences 2000
	cd tests && go test -count=1 -p 1 -timeout 4h ./linearizability -duration 60s -flavours qsbr,memb,mb,bp,signal

.PHONY: test-repeat
test-repeat: ## every suite TIMES (20) times beside two busy processes, and on one CPU; what failed how often; hours
	$(CARGO) build --release --locked -p tidemill
	@scripts/test-repeat -n $(or $(TIMES),20) $(if $(LEDGER),-l $(LEDGER)) $(SUITES)

soak: test-repeat

# Rare interleavings of the RCU flavours: TIDEMILL_TORTURE_SECONDS (60) each.
soak: soak-rcu
.PHONY: soak-rcu
soak-rcu:
	TIDEMILL_TORTURE_SECONDS=$${TIDEMILL_TORTURE_SECONDS:-60} $(CARGO) test -p tidemill-rcu --locked --quiet --release --test all

# Models of sorted trees and of sorted sets: TIDEMILL_TREE_STEPS (10^6) random steps each.
soak: soak-tree
.PHONY: soak-tree
soak-tree:
	TIDEMILL_TREE_STEPS=$${TIDEMILL_TREE_STEPS:-1000000} $(CARGO) test -p tidemill-store --locked --quiet --release --lib -- tree:: sorted_set::

# Losses of power beside the append-only file: TIDEMILL_POWER_SEEDS (5,000) by policy.
soak: soak-power
.PHONY: soak-power
soak-power:
	TIDEMILL_POWER_SEEDS=$${TIDEMILL_POWER_SEEDS:-5000} $(CARGO) test -p tidemill-persist --locked --quiet --release --lib -- append_only::tests::a_loss_of_power

.PHONY: mutants
mutants: ## lists changes of the code that no test of its crate notices (PART=statistics, ...); hours; scripts/mutants
	@scripts/mutants $(PART)

soak: mutants

planted: ## each planted bug must make a test fail; scripts/planted NAME... runs some
	@scripts/planted

# Models of one crate each: the RCU grace period; the slot word, the expiry floor and changes in
# place of the store; the handshake of a sleeping worker with those that post for it; readers of the
# journal beside its merge.
.PHONY: test-loom
test-loom: ## loom models, every interleaving within bounds; PART=rcu, store, engine or journal for one of them
ifeq ($(filter store engine journal,$(PART)),)
	RUSTFLAGS="--cfg loom" $(CARGO) test -p tidemill-rcu --locked --quiet --release --target-dir target/loom --test all
endif
ifeq ($(filter rcu engine journal,$(PART)),)
	RUSTFLAGS="--cfg loom" $(CARGO) test -p tidemill-store --locked --lib --release --target-dir target/loom -- model::
endif
ifeq ($(filter rcu store journal,$(PART)),)
	RUSTFLAGS="--cfg loom" $(CARGO) test -p tidemill-engine --locked --lib --target-dir target/loom -- handshake::model
endif
ifeq ($(filter rcu store engine,$(PART)),)
	RUSTFLAGS="--cfg loom" $(CARGO) test -p tidemill-journal --locked --lib --release --target-dir target/loom -- model
endif

test-loom-%: ; @$(MAKE) --no-print-directory test-loom PART=$*

.PHONY: test-asan test-tsan
test-asan: ## stress tests of rcu, store and engine under AddressSanitizer; 10 minutes with the build
	@scripts/sanitize address

test-tsan: ## the same under ThreadSanitizer; what it cannot see is in scripts/sanitize
	@scripts/sanitize thread
