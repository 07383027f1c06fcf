// An application that OpenTelemetry's SDK records. It answers with the traceparent and the tracestate that it was sent.
//
//	app ADDRESS    OTEL_EXPORTER_OTLP_ENDPOINT is where its spans go
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"os"
	"time"

	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/sdk/trace"
)

func main() {
	exporter, err := otlptracehttp.New(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	provider := trace.NewTracerProvider(
		trace.WithBatcher(exporter, trace.WithBatchTimeout(200*time.Millisecond)),
		trace.WithResource(resource.NewSchemaless(attribute.String("service.name", "app"))),
		// Without a parent that is recorded it records nothing.
		trace.WithSampler(trace.ParentBased(trace.NeverSample())),
	)
	answer := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s %s\n", r.Header.Get("traceparent"), r.Header.Get("tracestate"))
	})
	handler := otelhttp.NewHandler(answer, "answer", otelhttp.WithTracerProvider(provider), otelhttp.WithPropagators(propagation.TraceContext{}))
	log.Fatal(http.ListenAndServe(os.Args[1], handler))
}
