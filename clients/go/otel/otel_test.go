package tidemillotel

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	tidemill "go.tidemill.dev/client"
	"go.tidemill.dev/client/internal/leakcheck"
	"go.tidemill.dev/client/tidemilltest"
)

// bench is a client with a hook, and what its hook reported.
type bench struct {
	client *tidemill.Client
	spans  *tracetest.SpanRecorder
	traces *sdktrace.TracerProvider
	reader *sdkmetric.ManualReader
	meters *sdkmetric.MeterProvider
}

func newBench(t *testing.T, options Options) *bench {
	t.Helper()
	server := tidemilltest.Start(t)
	server.On("GET", func(args []string) any { return "value" })
	server.On("SET", func(args []string) any { return tidemilltest.Status("OK") })
	server.On("MULTI", func(args []string) any { return tidemilltest.Status("OK") })
	server.On("EXEC", func(args []string) any { return []any{"one", "two", "three"} })
	server.On("INCR", func(args []string) any { return errors.New("WRONGTYPE no number") })
	b := &bench{spans: tracetest.NewSpanRecorder(), reader: sdkmetric.NewManualReader()}
	b.traces = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(b.spans))
	b.meters = sdkmetric.NewMeterProvider(sdkmetric.WithReader(b.reader))
	options.TracerProvider, options.MeterProvider = b.traces, b.meters
	hook, err := NewHook(options)
	if err != nil {
		t.Fatal(err)
	}
	b.client, err = tidemill.New(tidemill.Options{Address: server.Address(), Hook: hook})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.client.Close() })
	return b
}

func (b *bench) metrics(t *testing.T) map[string]metricdata.Aggregation {
	t.Helper()
	var collected metricdata.ResourceMetrics
	if err := b.reader.Collect(context.Background(), &collected); err != nil {
		t.Fatal(err)
	}
	found := map[string]metricdata.Aggregation{}
	for _, scope := range collected.ScopeMetrics {
		for _, m := range scope.Metrics {
			found[m.Name] = m.Data
		}
	}
	return found
}

func asMap(attributes []attribute.KeyValue) map[string]string {
	found := map[string]string{}
	for _, a := range attributes {
		found[string(a.Key)] = a.Value.Emit()
	}
	return found
}

func TestHook_OperationsBecomeSpansAndMeasurements(t *testing.T) {
	leakcheck.Check(t)
	b := newBench(t, Options{ServerAddress: "cache.example", ServerPort: 6379, Database: "0",
		Attributes: []attribute.KeyValue{attribute.String("team", "blue")}})
	ctx, parent := b.traces.Tracer("test").Start(context.Background(), "request")
	b.client.Get(ctx, "secret key")
	b.client.Incr(ctx, "secret key")
	batch := &tidemill.Batch{}
	batch.Add("GET", "a")
	batch.Add("SET", "a", "secret value")
	if _, err := b.client.RunBatch(ctx, batch); err != nil {
		t.Fatal(err)
	}
	tx := &tidemill.Tx{}
	for range 3 {
		tx.Add("GET", "a")
	}
	if _, err := b.client.RunTx(ctx, tx); err != nil {
		t.Fatal(err)
	}
	parent.End()

	common := map[string]string{"db.system.name": "redis", "server.address": "cache.example",
		"server.port":  "6379",
		"db.namespace": "0", "team": "blue"}
	want := []struct {
		name  string
		extra map[string]string
		code  codes.Code
	}{
		{"GET", nil, codes.Unset},
		{"INCR", map[string]string{
			"db.response.status_code": "WRONGTYPE", "error.type": "WRONGTYPE",
		}, codes.Error},
		{"BATCH", map[string]string{"db.operation.batch.size": "2"}, codes.Unset},
		{"TX", map[string]string{"db.operation.batch.size": "3"}, codes.Unset},
	}
	spans := b.spans.Ended()
	if len(spans) != len(want)+1 {
		t.Fatalf("%d spans", len(spans))
	}
	for i, w := range want {
		attributes := maps.Clone(common)
		attributes["db.operation.name"] = w.name
		maps.Copy(attributes, w.extra)
		span := spans[i]
		if span.Name() != w.name || span.SpanKind() != trace.SpanKindClient ||
			span.Status().Code != w.code ||
			span.Parent().SpanID() != parent.SpanContext().SpanID() ||
			!maps.Equal(asMap(span.Attributes()), attributes) {
			t.Errorf("%s: %v %v %v", span.Name(), span.SpanKind(), span.Status(), span.Attributes())
		}
	}
	histogram, ok := b.metrics(t)[durationName].(metricdata.Histogram[float64])
	if !ok || len(histogram.DataPoints) != len(want) {
		t.Fatalf("%+v", histogram)
	}
	for _, point := range histogram.DataPoints {
		if point.Count != 1 || point.Sum <= 0 || point.Sum > 10 {
			t.Errorf("%+v", point)
		}
	}
}

func TestHook_WithoutParentCanBeLeftOut(t *testing.T) {
	leakcheck.Check(t)
	b := newBench(t, Options{OnlyWithParent: true, System: "valkey"})
	b.client.Get(context.Background(), "key")
	if spans := b.spans.Ended(); len(spans) != 0 {
		t.Errorf("%d spans", len(spans))
	}
	histogram, _ := b.metrics(t)[durationName].(metricdata.Histogram[float64])
	if len(histogram.DataPoints) != 1 {
		t.Errorf("%+v", histogram)
	}
	ctx, parent := b.traces.Tracer("test").Start(context.Background(), "request")
	b.client.Get(ctx, "key")
	parent.End()
	if spans := b.spans.Ended(); len(spans) != 2 {
		t.Errorf("%d spans", len(spans))
	}
}

func TestHook_ClientErrorsAreNamed(t *testing.T) {
	leakcheck.Check(t)
	b := newBench(t, Options{})
	canceled, cancel := context.WithCancel(context.Background())
	cancel()
	b.client.Get(canceled, "key")
	late, cancel := context.WithDeadline(context.Background(), time.Unix(1, 0))
	defer cancel()
	b.client.Get(late, "key")
	b.client.Close()
	b.client.Get(context.Background(), "key")
	spans := b.spans.Ended()
	for i, want := range []string{"canceled", "deadline_exceeded", "closed"} {
		if got := asMap(spans[i].Attributes())["error.type"]; got != want {
			t.Errorf("%q, wanted %q: %v", got, want, spans[i].Status())
		}
	}
}

func TestObservePipe_ReportsUntilUnregistered(t *testing.T) {
	leakcheck.Check(t)
	b := newBench(t, Options{})
	registration, err := ObservePipe(b.client.Stats, Options{MeterProvider: b.meters})
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		b.client.Get(context.Background(), "key")
	}
	found := b.metrics(t)
	for _, name := range []string{requestsName, writesName} {
		sum, ok := found[name].(metricdata.Sum[int64])
		if !ok || len(sum.DataPoints) != 1 || sum.DataPoints[0].Value != 10 || !sum.IsMonotonic {
			t.Errorf("%s: %+v", name, found[name])
		}
	}
	for _, name := range []string{pendingName, queuedName} {
		if gauge, ok := found[name].(metricdata.Gauge[int64]); !ok || len(gauge.DataPoints) != 1 ||
			gauge.DataPoints[0].Value != 0 {
			t.Errorf("%s: %+v", name, found[name])
		}
	}
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
	if _, ok := b.metrics(t)[requestsName]; ok {
		t.Error("still reported")
	}
}

func TestHook_AsynchronousOperationsAreSeen(t *testing.T) {
	leakcheck.Check(t)
	b := newBench(t, Options{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := b.client.Go(ctx, "GET", "key").Wait(ctx).Err(); err != nil {
		t.Fatal(err)
	}
	if spans := b.spans.Ended(); len(spans) != 1 || spans[0].Name() != "GET" {
		t.Error(spans)
	}
}
