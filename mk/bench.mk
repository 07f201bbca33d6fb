# Measurements, and the load generator's experiments.
.PHONY: bench bench-budget bench-fairness bench-instructions build-experiments experiments-smoke

bench: ## figures and verdicts; PART=budget, fairness, ... for one part, PART=list lists them
	@CARGO=$(CARGO) scripts/bench $(PART)

# Names of the parts that documents quote most; `bench-PART` is another name of every part.
bench-budget bench-fairness bench-instructions: bench-%:
	@$(MAKE) --no-print-directory bench PART=$*
bench-%: ; @$(MAKE) --no-print-directory bench PART=$*

build-experiments: ## the servers of experiments that are programs of their own
	@scripts/workers-server --build

experiments-smoke: ## every shipped experiment for two short blocks
	@scripts/setup
	$(CARGO) build --release --locked -p tidemill
	@scripts/workers-server --build
	@scripts/experiments-smoke target/release/tidemill
