# Go client.
.PHONY: build-go test-go test-goredis

GO_CLIENT := clients/go

build-go: ## vet and compile the Go tests, end-to-end ones too
	cd tests && go vet ./... && go test -run '^$$' $(END_TO_END)
	for module in . goredis otel; do (cd $(GO_CLIENT)/$$module && go vet ./... && go test -race -run '^$$' ./...); done

# Tests with a cluster wait for its servers most of the time: they run beside the others, in a process of their own.
GO_TEST := go test -race $(if $(LONG),,-short) -timeout $(if $(LONG),30m,15m)
test-go: ## tests of the Go client, its go-redis adapter and its OpenTelemetry hook; LONG=1: chaos and fuzzing too
	(cd $(GO_CLIENT) && $(GO_TEST) -run '^TestCluster_' .) & clusters=$$!; \
	for module in . goredis otel; do \
		(cd $(GO_CLIENT)/$$module && $(GO_TEST) -skip '^TestCluster_' ./...) || { wait $$clusters; exit 1; }; \
	done; \
	wait $$clusters
ifdef LONG
	cd $(GO_CLIENT) && go test -run xxx -fuzz FuzzParser -fuzztime 60s .
	cd $(GO_CLIENT) && go test -run xxx -fuzz FuzzScanner -fuzztime 30s ./internal/rawreply
	cd $(GO_CLIENT)/goredis && go test -run xxx -fuzz FuzzSplitter -fuzztime 30s .
endif

test-goredis: ## go-redis's own specs, with its constructors and with ours: passed/total
	scripts/goredis-specs.py
