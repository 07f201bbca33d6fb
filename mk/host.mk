# Host doctor and tuner.
.PHONY: test-host
test-host: ## tests of the host part beyond cargo's
	@true

.PHONY: doctor-golden
doctor-golden: ## doctor and plan over a folder of captures: make doctor-golden DIR=...
	@$(CARGO) build --quiet --locked -p tidemill
	@scripts/doctor-golden "$(DIR)" target/debug/tidemill

# Too long for `make check`: image and machine take more than six minutes on two cores.
.PHONY: test-vm
test-vm: ## tidemill tune and 100,000 connections on Debian 12's kernel in qemu; its first run needs root
	@$(CARGO) build --release --locked --quiet -p tidemill
	@scripts/test-vm target/release/tidemill

soak: test-vm
