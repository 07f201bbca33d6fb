# Go client.
.PHONY: test-go test-go-long test-goredis bench-go

GO_CLIENT := clients/go

test-go: ## tests of the Go client, its go-redis adapter and its OpenTelemetry hook, short mode
	cd $(GO_CLIENT) && go vet ./... && go test -race -short -timeout 4m ./...
	for module in goredis otel; do (cd $(GO_CLIENT)/$$module && go vet ./... && go test -race -short -timeout 4m ./...); done

test-goredis: ## go-redis's own specs, with its constructors and with ours: passed/total
	scripts/goredis-specs.py

test-go-long: ## chaos tests of the Go client
	cd $(GO_CLIENT) && go test -race -timeout 30m ./... && go test -run xxx -fuzz FuzzParser -fuzztime 60s .

bench-go: ## the Go client beside its peers: target, figure, verdict
	cd $(GO_CLIENT)/bench && go run . -verdict
