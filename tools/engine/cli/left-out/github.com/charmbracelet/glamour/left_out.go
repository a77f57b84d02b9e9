// Package glamour takes the place of a renderer of Markdown for terminals, which highlights 200 languages. Only
// `pulumi config env init` uses it here, and shows the text as it is when rendering fails.
package glamour

import "slipway.dev/engine/cli/leftout"

type TermRenderer struct{}

type TermRendererOption func(*TermRenderer) error

func WithAutoStyle() TermRendererOption { return nil }

func WithWordWrap(int) TermRendererOption { return nil }

func NewTermRenderer(...TermRendererOption) (*TermRenderer, error) { return &TermRenderer{}, nil }

func (*TermRenderer) Render(string) (string, error) { return "", leftout.Error("a rendered text") }
