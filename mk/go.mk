# Go client.
.PHONY: test-go test-go-long test-goredis bench-go bench-go-plots

GO_CLIENT := clients/go

test-go: ## tests of the Go client, its go-redis adapter and its OpenTelemetry hook, short mode
	cd $(GO_CLIENT) && go vet ./... && go test -race -short -timeout 15m ./...
	for module in goredis otel; do (cd $(GO_CLIENT)/$$module && go vet ./... && go test -race -short -timeout 15m ./...); done

test-goredis: ## go-redis's own specs, with its constructors and with ours: passed/total
	scripts/goredis-specs.py

test-go-long: ## chaos tests of the Go client and fuzzing of what reads from the network
	cd $(GO_CLIENT) && go test -race -timeout 30m ./... && go test -run xxx -fuzz FuzzParser -fuzztime 60s .
	cd $(GO_CLIENT) && go test -run xxx -fuzz FuzzScanner -fuzztime 30s ./internal/rawreply
	cd $(GO_CLIENT)/goredis && go test -race -timeout 15m ./... && go test -run xxx -fuzz FuzzSplitter -fuzztime 30s .

bench-go: ## the Go client beside its peers: tables, targets, figures, verdicts; about 35 minutes, with BRIEF=1 about 15
	mkdir -p $(BUILD)/bench-go
	cd $(GO_CLIENT)/bench && go build -o $(abspath $(BUILD)/bench-go/bench) .
	$(BUILD)/bench-go/bench -verdict $(if $(BRIEF),-brief) -save $(BUILD)/bench-go/figures.json

bench-go-plots: ## charts for clients/go/docs from the figures of the last bench-go
	cp $(BUILD)/bench-go/figures.json $(GO_CLIENT)/docs/figures.json
	cd $(GO_CLIENT)/bench && go run . -plot ../docs/figures.json -folder ../docs
