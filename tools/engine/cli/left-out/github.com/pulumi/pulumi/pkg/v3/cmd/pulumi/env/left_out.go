// Package env takes the place of `pulumi env`, the environments of Pulumi Cloud.
package env

import (
	"github.com/spf13/cobra"
	"slipway.dev/engine/cli/leftout"
)

func NewEnvCmd() *cobra.Command { return leftout.Command("env", "esc") }
