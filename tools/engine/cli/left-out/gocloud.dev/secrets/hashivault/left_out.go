// Package hashivault takes the place of the driver for keys of hashivault://, which needs the client of HashiCorp Vault.
package hashivault

import (
	"context"
	"net/url"

	"gocloud.dev/secrets"
	"slipway.dev/engine/cli/leftout"
)

type opener struct{}

func init() { secrets.DefaultURLMux().RegisterKeeper("hashivault", opener{}) }

func (opener) OpenKeeperURL(context.Context, *url.URL) (*secrets.Keeper, error) {
	return nil, leftout.Error("hashivault://")
}
