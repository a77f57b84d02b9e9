// Package postgres takes the place of the driver for postgres:// state, which needs a client of PostgreSQL.
package postgres

import (
	"context"
	"net/url"

	"gocloud.dev/blob"
	"slipway.dev/engine/cli/leftout"
)

type opener struct{}

func init() { blob.DefaultURLMux().RegisterBucket("postgres", opener{}) }

func (opener) OpenBucketURL(context.Context, *url.URL) (*blob.Bucket, error) {
	return nil, leftout.Error("postgres://")
}
