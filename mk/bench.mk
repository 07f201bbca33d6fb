# Load generator and experiments.
.PHONY: bench-client experiments-smoke

bench-client: ## client CPU per operation beside redis-benchmark: figures, verdict, non-zero on a miss
	@scripts/setup
	@$(CARGO) build --release --locked --quiet -p tidemill
	@scripts/bench-client.py target/release/tidemill

experiments-smoke: ## every shipped experiment for two short blocks
	@scripts/setup
	@$(CARGO) build --release --locked --quiet -p tidemill
	@scripts/workers-server --build
	@scripts/experiments-smoke target/release/tidemill
