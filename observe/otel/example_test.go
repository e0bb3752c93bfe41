package otel_test

import (
	"context"
	"fmt"
	"strings"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/observe/otel"
)

// A program that has set the global providers of OpenTelemetry needs no Config. Here a
// reader stands in for the exporter, and the locks are grouped by the first part of their
// names.
func ExampleNew() {
	ctx := context.Background()
	reader := sdkmetric.NewManualReader()
	observer, err := otel.New(otel.Config{
		MeterProvider: sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader)),
		Group:         func(name string) string { return strings.SplitN(name, "/", 2)[0] },
	})
	if err != nil {
		panic(err)
	}
	client, err := holdfast.New(memstore.New(), holdfast.Config{Observer: observer})
	if err != nil {
		panic(err)
	}
	defer client.Close(ctx)

	lease, err := client.Mutex("invoice/42").Lock(ctx)
	if err != nil {
		panic(err)
	}
	defer lease.Release(ctx)

	var all metricdata.ResourceMetrics
	_ = reader.Collect(ctx, &all)
	for _, m := range all.ScopeMetrics[0].Metrics {
		if held, ok := m.Data.(metricdata.Sum[int64]); ok && m.Name == "holdfast.held" {
			point := held.DataPoints[0]
			group, _ := point.Attributes.Value("holdfast.group")
			fmt.Println(m.Name, group.AsString(), point.Value)
		}
	}
	// Output: holdfast.held invoice 1
}
