# Host doctor and tuner.
.PHONY: test-host
test-host: build-server ## the host part from outside: a capture of this machine, captured machines
	@scripts/test-host target/release/tidemill

# Too long for `make check`: image and machine take more than six minutes on two cores.
.PHONY: test-vm
test-vm: ## tidemill tune and 100,000 connections on Debian 12's kernel in qemu; its first run needs root
	$(CARGO) build --release --locked -p tidemill
	@scripts/test-vm target/release/tidemill

soak: test-vm
