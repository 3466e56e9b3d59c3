// Package pluginv1 is version 1 of the contract between a gateway and its plugins, generated from
// plugin.proto.
package pluginv1

import _ "embed"

// Source is the text of plugin.proto, for authors of plugins in other languages.
//
//go:embed plugin.proto
var Source string
