// Package neo takes the place of `pulumi neo`, an agent of Pulumi Cloud with an interface of its own.
package neo

import (
	"github.com/spf13/cobra"
	"slipway.dev/engine/cli/leftout"
)

func NewNeoCmd() *cobra.Command { return leftout.Command("neo") }
