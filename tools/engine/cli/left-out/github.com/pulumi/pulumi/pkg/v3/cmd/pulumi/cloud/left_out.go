// Package cloud takes the place of `pulumi api`, a client for all of Pulumi Cloud's API. It reads OpenAPI, whose parser
// is a quarter of what the engine takes to compile. Commands of Pulumi Cloud alone (`pulumi org`, `pulumi insights`)
// lose with it how they find their account, and say so.
package cloud

import (
	"context"

	"github.com/pulumi/pulumi/pkg/v3/backend/httpstate/client"
	"github.com/spf13/cobra"
	"slipway.dev/engine/cli/leftout"
)

// APIError is looked for among the errors of every command, and never found.
type APIError struct {
	ExitCode int
	Silent   bool
}

func (*APIError) Error() string { return leftout.Error("`pulumi api`").Error() }

// ResolvedContext is what commands of Pulumi Cloud read; no value of it is ever made here.
type ResolvedContext struct {
	Client   *client.Client
	OrgName  string
	LoggedIn bool
}

func ResolveContext(context.Context) (*ResolvedContext, error) {
	return nil, leftout.Error("the client of Pulumi Cloud's API")
}

func NewAPICmd() *cobra.Command { return leftout.Command("api") }
