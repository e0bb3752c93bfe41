package prom_test

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/memstore"
	"github.com/holdfast-go/holdfast/observe/prom"
)

// Here a registry of its own stands for prometheus.DefaultRegisterer.
func ExampleNew() {
	ctx := context.Background()
	observer := prom.New(prom.Config{})
	registry := prometheus.NewRegistry()
	registry.MustRegister(observer)
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

	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()
	scrape, err := server.Client().Get(server.URL)
	if err != nil {
		panic(err)
	}
	defer scrape.Body.Close()
	text, _ := io.ReadAll(scrape.Body)
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "holdfast_held") {
			fmt.Print(line)
		}
	}
	// Output: holdfast_held{holdfast_mode="exclusive"} 1
}
