// Protobuf is a plugin that decodes and encodes Protocol Buffers by the descriptor sets in a
// directory.
package main

import (
	"log"
	"os"

	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

func main() {
	dir := "schemas"
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	t, err := loadTypes(dir)
	if err != nil {
		log.Fatal(err)
	}
	sdk.Serve(plugin(t))
}

func plugin(t *types) sdk.Plugin {
	return sdk.Plugin{
		Name: "protobuf", Version: "1.0.0",
		ContentTypes: []string{"application/protobuf", "application/x-protobuf", "application/vnd.google.protobuf", "application/*+protobuf"},
		Decode:       t.decode,
		Encode:       t.encode,
	}
}
