// Package tidemillotel gives go.tidemill.dev/client spans and metrics of OpenTelemetry, by the
// semantic conventions for database clients. It is a module of its own, so that the client has no
// dependencies.
//
//	options := tidemillotel.Options{ServerAddress: "cache.example", ServerPort: 6379}
//	hook, err := tidemillotel.NewHook(options)
//	client, err := tidemill.New(tidemill.Options{Address: "cache.example:6379", Hook: hook})
//
// Keys and values never appear in what is reported.
package tidemillotel

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
	tidemill "go.tidemill.dev/client"
)

const scope = "go.tidemill.dev/client/otel"

// Names of the semantic conventions for database clients.
const (
	systemKey    = attribute.Key("db.system.name")
	operationKey = attribute.Key("db.operation.name")
	batchSizeKey = attribute.Key("db.operation.batch.size")
	statusKey    = attribute.Key("db.response.status_code")
	errorTypeKey = attribute.Key("error.type")
	addressKey   = attribute.Key("server.address")
	portKey      = attribute.Key("server.port")
	databaseKey  = attribute.Key("db.namespace")

	durationName = "db.client.operation.duration"
)

// durationBoundaries are those that the conventions advise, in seconds.
var durationBoundaries = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10}

// Options configure a hook. Every field may be left out; its default is in brackets.
type Options struct {
	TracerProvider trace.TracerProvider // [the global one]
	MeterProvider  metric.MeterProvider // [the global one]
	// System is the value of db.system.name ["redis"]; "valkey" is one too.
	System string
	// ServerAddress and ServerPort name the server as the program knows it [not reported].
	ServerAddress string
	ServerPort    int
	// Database is the database's number, reported as db.namespace [not reported].
	Database string
	// Attributes are added to every span and measurement.
	Attributes []attribute.KeyValue
	// OnlyWithParent makes no span for operations outside of any other span; they are still
	// measured.
	OnlyWithParent bool
}

// Hook makes a span of kind client, and one measurement of db.client.operation.duration, for each
// operation. It may be used by any number of clients.
type Hook struct {
	tracer         trace.Tracer
	duration       metric.Float64Histogram
	attributes     []attribute.KeyValue
	onlyWithParent bool
}

var _ tidemill.Hook = (*Hook)(nil)

// NewHook returns a hook for [tidemill.Options]. Its error is the meter's.
func NewHook(options Options) (*Hook, error) {
	if options.TracerProvider == nil {
		options.TracerProvider = otel.GetTracerProvider()
	}
	duration, err := meter(options.MeterProvider).Float64Histogram(durationName,
		metric.WithUnit("s"),
		metric.WithDescription("Duration of database client operations."),
		metric.WithExplicitBucketBoundaries(durationBoundaries...))
	if err != nil {
		return nil, fmt.Errorf("tidemillotel: %w", err)
	}
	return &Hook{tracer: options.TracerProvider.Tracer(scope), duration: duration,
		attributes:     options.common(),
		onlyWithParent: options.OnlyWithParent}, nil
}

func meter(provider metric.MeterProvider) metric.Meter {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	return provider.Meter(scope)
}

// common returns the attributes that every span and measurement has.
func (o Options) common() []attribute.KeyValue {
	if o.System == "" {
		o.System = "redis"
	}
	common := []attribute.KeyValue{systemKey.String(o.System)}
	if o.ServerAddress != "" {
		common = append(common, addressKey.String(o.ServerAddress))
	}
	if o.ServerPort != 0 {
		common = append(common, portKey.Int(o.ServerPort))
	}
	if o.Database != "" {
		common = append(common, databaseKey.String(o.Database))
	}
	return append(common, o.Attributes...)
}

// Start is called by the client before an operation; what it returns, after.
func (h *Hook) Start(
	ctx context.Context, name string, commands int,
) (context.Context, func(err error)) {
	attributes := make([]attribute.KeyValue, 0, len(h.attributes)+4)
	attributes = append(attributes, h.attributes...)
	attributes = append(attributes, operationKey.String(name))
	if commands > 1 {
		attributes = append(attributes, batchSizeKey.Int(commands))
	}
	span := trace.SpanFromContext(context.Background()) // records nothing
	if !h.onlyWithParent || trace.SpanContextFromContext(ctx).IsValid() {
		ctx, span = h.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindClient),
			trace.WithAttributes(attributes...))
	}
	began := time.Now()
	return ctx, func(err error) {
		elapsed := time.Since(began)
		if err != nil {
			outcome := describe(err)
			attributes = append(attributes, outcome...)
			span.SetAttributes(outcome...)
			span.SetStatus(codes.Error, err.Error())
		}
		span.End()
		// Not in ctx's cancellation, but in its span, so that exemplars find it.
		h.duration.Record(context.WithoutCancel(ctx), elapsed.Seconds(),
			metric.WithAttributes(attributes...))
	}
}

// describe names an error with few different words: the server's code, or what the client's
// sentinel says.
func describe(err error) []attribute.KeyValue {
	var server *tidemill.ServerError
	if errors.As(err, &server) {
		return []attribute.KeyValue{statusKey.String(server.Code), errorTypeKey.String(server.Code)}
	}
	kind := "_OTHER"
	for _, known := range []struct {
		err  error
		name string
	}{
		{context.Canceled, "canceled"}, {context.DeadlineExceeded, "deadline_exceeded"},
		{tidemill.ErrTimeout, "timeout"},
		{tidemill.ErrClosed, "closed"}, {tidemill.ErrArgument, "argument"},
		{tidemill.ErrProtocol, "protocol"},
		{tidemill.ErrNotSent, "not_sent"}, {tidemill.ErrMaybeSent, "outcome_unknown"},
	} {
		if errors.Is(err, known.err) {
			kind = known.name
			break
		}
	}
	return []attribute.KeyValue{errorTypeKey.String(kind)}
}
