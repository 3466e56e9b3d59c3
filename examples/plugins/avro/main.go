// Avro is a plugin that decodes and encodes Apache Avro, with the schemas in a directory.
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
	s, err := loadSchemas(dir)
	if err != nil {
		log.Fatal(err)
	}
	sdk.Serve(plugin(s))
}

func plugin(s *schemas) sdk.Plugin {
	return sdk.Plugin{
		Name: "avro", Version: "1.0.0",
		ContentTypes: []string{"application/avro", "avro/binary", "application/*+avro"},
		Decode:       s.decode,
		Encode:       s.encode,
	}
}
