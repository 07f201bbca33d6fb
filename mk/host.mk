# Host doctor and tuner.
.PHONY: test-host
test-host: ## tests of the host part beyond cargo's
	@true

.PHONY: doctor-golden
doctor-golden: ## doctor and plan over a folder of captures: make doctor-golden DIR=...
	@$(CARGO) build --quiet --locked -p tidemill
	@scripts/doctor-golden "$(DIR)" target/debug/tidemill
