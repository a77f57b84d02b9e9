// Package operations takes the place of `pulumi logs`, which reads what AWS and Google Cloud keep of functions.
package operations

import (
	"context"
	"time"

	"github.com/pulumi/pulumi/sdk/v3/go/common/resource"
	"github.com/pulumi/pulumi/sdk/v3/go/common/resource/config"
	"slipway.dev/engine/cli/leftout"
)

// LogEntry is a line of a log, at a time in milliseconds since 1970.
type LogEntry struct {
	ID        string
	Timestamp int64
	Message   string
}

type ResourceFilter string

// LogQuery is sent to Pulumi Cloud under the names of its tags.
type LogQuery struct {
	StartTime      *time.Time      `url:"startTime,unix"`
	EndTime        *time.Time      `url:"endTime,unix"`
	ResourceFilter *ResourceFilter `url:"resourceFilter"`
}

type Provider interface {
	GetLogs(ctx context.Context, query LogQuery) (*[]LogEntry, error)
}

// Resource answers for all resources of a stack.
type Resource struct{}

func NewResourceTree([]*resource.State) *Resource { return &Resource{} }

func (r *Resource) OperationsProvider(map[config.Key]string) Provider { return r }

func (*Resource) GetLogs(context.Context, LogQuery) (*[]LogEntry, error) {
	return nil, leftout.Error("`pulumi logs`")
}
