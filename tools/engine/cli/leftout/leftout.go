// Package leftout says what this build of the engine cannot do, in one sentence for all of it.
// What is left out, and why, is the list of packages below tools/engine/cli/left-out.
package leftout

import (
	"fmt"

	"github.com/spf13/cobra"
)

// Error is what anything that was left out answers; what is a command, or a scheme such as "s3://".
func Error(what string) error {
	return fmt.Errorf("%s is left out of this pulumi, which Slipway has built from source; "+
		"the official one has it: https://www.pulumi.com/docs/iac/download-install/", what)
}

// Command answers any arguments and flags with Error.
func Command(name string, aliases ...string) *cobra.Command {
	return &cobra.Command{
		Use:                name,
		Aliases:            aliases,
		Short:              "Left out of this build; the official pulumi has it",
		DisableFlagParsing: true,
		RunE:               func(*cobra.Command, []string) error { return Error("`pulumi " + name + "`") },
	}
}
