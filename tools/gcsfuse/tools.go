//go:build tools

package tools

import _ "github.com/googlecloudplatform/gcsfuse/v3"
