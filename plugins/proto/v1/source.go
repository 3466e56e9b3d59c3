// Package pluginv1 is the contract between a gateway and its plugins, version 1,
// made from plugin.proto.
package pluginv1

import _ "embed"

// Source is the text of plugin.proto, for authors of plugins in other languages.
//
//go:embed plugin.proto
var Source string
