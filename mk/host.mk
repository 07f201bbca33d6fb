# Host doctor and tuner.
.PHONY: test-host
test-host: ## tests of the host part beyond cargo's
	@true
