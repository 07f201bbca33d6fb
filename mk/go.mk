# Go client.
.PHONY: test-go test-go-long test-goredis bench-go bench-go-plots

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

bench-go-plots: ## charts for clients/go/docs from a measurement of all clients
	cd $(GO_CLIENT)/bench && go run . -peers all -rounds 5 -save ../docs/figures.json \
		-loads rate:5000,rate:20000,rate:80000,rate:160000,rate:320000,closed:1,closed:4,closed:16,closed:64,closed:256,closed:1024
	cd $(GO_CLIENT)/bench && go run . -plot ../docs/figures.json -folder ../docs
