// Package azureblob takes the place of the driver for azblob:// state, which needs the clients of Azure.
package azureblob

import (
	"context"
	"net/url"

	"gocloud.dev/blob"
	"slipway.dev/engine/cli/leftout"
)

type opener struct{}

func init() { blob.DefaultURLMux().RegisterBucket("azblob", opener{}) }

func (opener) OpenBucketURL(context.Context, *url.URL) (*blob.Bucket, error) {
	return nil, leftout.Error("azblob://")
}
