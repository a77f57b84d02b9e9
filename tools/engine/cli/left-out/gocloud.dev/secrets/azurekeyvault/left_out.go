// Package azurekeyvault takes the place of the driver for keys of azurekeyvault://, which needs the clients of Azure.
package azurekeyvault

import (
	"context"
	"net/url"

	"gocloud.dev/secrets"
	"slipway.dev/engine/cli/leftout"
)

type opener struct{}

func init() { secrets.DefaultURLMux().RegisterKeeper("azurekeyvault", opener{}) }

func (opener) OpenKeeperURL(context.Context, *url.URL) (*secrets.Keeper, error) {
	return nil, leftout.Error("azurekeyvault://")
}
