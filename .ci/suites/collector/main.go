// A collector of OpenTelemetry, put together as its builder does it: the receiver of OTLP and the exporter to files.
//
//	collector --config FILE
package main

import (
	"log"

	"github.com/open-telemetry/opentelemetry-collector-contrib/exporter/fileexporter"
	"go.opentelemetry.io/collector/component"
	"go.opentelemetry.io/collector/confmap"
	"go.opentelemetry.io/collector/confmap/provider/fileprovider"
	"go.opentelemetry.io/collector/exporter"
	"go.opentelemetry.io/collector/otelcol"
	"go.opentelemetry.io/collector/receiver"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/service/telemetry/otelconftelemetry"
)

func components() (otelcol.Factories, error) {
	receivers, err := otelcol.MakeFactoryMap[receiver.Factory](otlpreceiver.NewFactory())
	if err != nil {
		return otelcol.Factories{}, err
	}
	exporters, err := otelcol.MakeFactoryMap[exporter.Factory](fileexporter.NewFactory())
	return otelcol.Factories{Receivers: receivers, Exporters: exporters, Telemetry: otelconftelemetry.NewFactory()}, err
}

func main() {
	files := confmap.ResolverSettings{
		ProviderFactories: []confmap.ProviderFactory{fileprovider.NewFactory()},
		DefaultScheme:     "file",
	}
	command := otelcol.NewCommand(otelcol.CollectorSettings{
		BuildInfo:              component.BuildInfo{Command: "collector", Description: "of the suite", Version: "0.140.0"},
		Factories:              components,
		ConfigProviderSettings: otelcol.ConfigProviderSettings{ResolverSettings: files},
	})
	if err := command.Execute(); err != nil {
		log.Fatal(err)
	}
}
