# Host doctor and tuner.
.PHONY: test-host
test-host: ## the host part from outside: a capture of this machine, captured machines
	@$(CARGO) build --quiet --locked -p tidemill
	@scripts/test-host target/debug/tidemill

.PHONY: doctor-golden
doctor-golden: ## doctor and plan over a folder of captures: make doctor-golden DIR=...
	@$(CARGO) build --quiet --locked -p tidemill
	@scripts/doctor-golden "$(DIR)" target/debug/tidemill

.PHONY: bench-host
bench-host: ## what can be switched on any host, under a loopback load: verdicts (BLOCKS, SECONDS_PER_RUN)
	@scripts/setup
	@$(CARGO) build --release --locked --quiet -p tidemill
	@scripts/bench-host target/release/tidemill

# Too long for `make check`: image and machine take more than six minutes on two cores.
.PHONY: test-vm
test-vm: ## tidemill tune and 100,000 connections on Debian 12's kernel in qemu; its first run needs root
	@$(CARGO) build --release --locked --quiet -p tidemill
	@scripts/test-vm target/release/tidemill

soak: test-vm
