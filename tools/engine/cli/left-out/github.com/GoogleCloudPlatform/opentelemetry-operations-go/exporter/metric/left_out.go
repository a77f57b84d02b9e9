// Package metric takes the place of what sends the metrics of Cloud Storage's gRPC client to Cloud Monitoring; the
// engine's state goes over HTTP.
package metric

import (
	"go.opentelemetry.io/otel/sdk/metric"
	"slipway.dev/engine/cli/leftout"
)

type Option struct{}

func New(...Option) (metric.Exporter, error) {
	return nil, leftout.Error("the exporter of metrics to Cloud Monitoring")
}

func WithProjectID(string) Option { return Option{} }

func WithMetricDescriptorTypeFormatter(any) Option { return Option{} }

func WithCreateServiceTimeSeries() Option { return Option{} }

func WithMonitoredResourceDescription(string, []string) Option { return Option{} }
