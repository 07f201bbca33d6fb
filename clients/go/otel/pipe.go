package tidemillotel

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/metric"
	tidemill "go.tidemill.dev/client"
)

// Metrics of the pipe, which no convention covers. Counters start again when the connection is
// replaced.
const (
	pendingName    = "tidemill.pipe.pending"
	queuedName     = "tidemill.pipe.queued"
	requestsName   = "tidemill.pipe.requests"
	writesName     = "tidemill.pipe.writes"
	readsName      = "tidemill.pipe.reads"
	gatherTimeName = "tidemill.pipe.gather_time"
)

// ObservePipe reports a client's pipe statistics whenever metrics are collected:
//
//	registration, err := tidemillotel.ObservePipe(client.Stats, tidemillotel.Options{})
//
// Unregister the result before the client is given up.
func ObservePipe(stats func() tidemill.PipeStats, options Options) (metric.Registration, error) {
	m := meter(options.MeterProvider)
	pending, err1 := m.Int64ObservableGauge(pendingName, metric.WithUnit("{request}"),
		metric.WithDescription("Requests that are not answered yet."))
	queued, err2 := m.Int64ObservableGauge(queuedName, metric.WithUnit("{request}"),
		metric.WithDescription("Requests that are not written yet."))
	requests, err3 := m.Int64ObservableCounter(requestsName, metric.WithUnit("{request}"),
		metric.WithDescription("Requests written; divided by writes, the size of a batch."))
	writes, err4 := m.Int64ObservableCounter(writesName, metric.WithUnit("{call}"),
		metric.WithDescription("Write calls."))
	reads, err5 := m.Int64ObservableCounter(readsName, metric.WithUnit("{call}"),
		metric.WithDescription("Read calls that completed a reply."))
	gathering, err6 := m.Float64ObservableCounter(gatherTimeName, metric.WithUnit("s"),
		metric.WithDescription("Time that writes waited for company."))
	for _, err := range []error{err1, err2, err3, err4, err5, err6} {
		if err != nil {
			return nil, fmt.Errorf("tidemillotel: %w", err)
		}
	}
	common := metric.WithAttributes(options.common()...)
	registration, err := m.RegisterCallback(
		func(_ context.Context, observer metric.Observer) error {
			now := stats()
			observer.ObserveInt64(pending, int64(now.Pending), common)
			observer.ObserveInt64(queued, int64(now.Queued), common)
			observer.ObserveInt64(requests, int64(now.Requests), common)
			observer.ObserveInt64(writes, int64(now.Writes), common)
			observer.ObserveInt64(reads, int64(now.Reads), common)
			observer.ObserveFloat64(gathering, now.GatherTime.Seconds(), common)
			return nil
		}, pending, queued, requests, writes, reads, gathering)
	if err != nil {
		return nil, fmt.Errorf("tidemillotel: %w", err)
	}
	return registration, nil
}
