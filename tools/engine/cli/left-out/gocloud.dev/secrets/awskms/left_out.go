// Package awskms takes the place of the driver for keys of awskms://, which needs the clients of AWS.
package awskms

import (
	"context"
	"net/url"

	"gocloud.dev/secrets"
	"slipway.dev/engine/cli/leftout"
)

type opener struct{}

func init() { secrets.DefaultURLMux().RegisterKeeper("awskms", opener{}) }

func (opener) OpenKeeperURL(context.Context, *url.URL) (*secrets.Keeper, error) {
	return nil, leftout.Error("awskms://")
}
