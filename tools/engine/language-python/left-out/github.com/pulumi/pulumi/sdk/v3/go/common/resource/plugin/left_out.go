// Package plugin takes the place of what runs plugins, which is the engine's work, and brings a client of git with it.
// The host of Python programs only reads which plugin a Python package asks for.
package plugin

import (
	"encoding/json"
	"os"
)

// PulumiPluginJSON is a Python package's own file pulumi-plugin.json.
type PulumiPluginJSON struct {
	Resource bool   `json:"resource"` // false: the package needs no plugin
	Name     string `json:"name"`     // else it follows from the package's
	Version  string `json:"version"`  // else it is the package's
	Server   string `json:"server"`   // where it is downloaded from; empty: the usual place
}

// LoadPulumiPluginJSON fails as os.ReadFile does where there is no such file; the caller asks for that.
func LoadPulumiPluginJSON(path string) (*PulumiPluginJSON, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	wanted := &PulumiPluginJSON{}
	return wanted, json.Unmarshal(text, wanted)
}
