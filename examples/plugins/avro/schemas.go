package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"mime"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hamba/avro/v2"
)

type schemas struct {
	byName        map[string]avro.Schema
	byFingerprint map[uint64]avro.Schema
}

// loadSchemas reads the .avsc files in a directory, in the order of their names. Each may refer to
// definitions in the files before it.
func loadSchemas(dir string) (*schemas, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.avsc"))
	if err != nil || len(files) == 0 {
		return nil, errors.Join(fmt.Errorf("there is no schema in %s: put .avsc files there", dir), err)
	}
	slices.Sort(files)
	s := &schemas{byName: map[string]avro.Schema{}, byFingerprint: map[uint64]avro.Schema{}}
	known := &avro.SchemaCache{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		schema, err := avro.ParseWithCache(string(text), "", known)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		named, ok := schema.(avro.NamedSchema)
		if !ok {
			return nil, fmt.Errorf("%s: a schema here is a record, an enum or a fixed, which has a name", file)
		}
		fingerprint, err := schema.FingerprintUsing(avro.CRC64AvroLE)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		s.byName[named.FullName()] = schema
		s.byFingerprint[binary.LittleEndian.Uint64(fingerprint)] = schema
	}
	return s, nil
}

// singleObject begins Avro's single-object encoding, before the schema's fingerprint.
var singleObject = []byte{0xc3, 0x01}

const singleObjectHeader = 10

// decode reads single-object encoding, or one value of the schema in the content type, such as
// application/avro; schema=shop.Order.
func (s *schemas) decode(_ context.Context, contentType string, payload []byte) (any, error) {
	if bytes.HasPrefix(payload, singleObject) && len(payload) >= singleObjectHeader {
		if schema := s.byFingerprint[binary.LittleEndian.Uint64(payload[2:])]; schema != nil {
			return read(payload[singleObjectHeader:], schema)
		}
	}
	if contentType == "" {
		return nil, errors.New("it is not the single-object encoding of a known schema")
	}
	schema, err := s.named(contentType)
	if err != nil {
		return nil, err
	}
	return read(payload, schema)
}

func (s *schemas) encode(_ context.Context, contentType string, v any) ([]byte, error) {
	schema, err := s.named(contentType)
	if err != nil {
		return nil, err
	}
	fingerprint, err := schema.FingerprintUsing(avro.CRC64AvroLE)
	if err != nil {
		return nil, err
	}
	return write(append(slices.Clone(singleObject), fingerprint...), v, schema)
}

// named returns the schema that the content type names, or the only one.
func (s *schemas) named(contentType string) (avro.Schema, error) {
	_, parameters, err := mime.ParseMediaType(contentType)
	if err != nil {
		return nil, err
	}
	name := parameters["schema"]
	if name == "" && len(s.byName) == 1 {
		for only := range s.byName {
			name = only
		}
	}
	if schema := s.byName[name]; schema != nil {
		return schema, nil
	}
	if name == "" {
		return nil, errors.New("the content type names no schema, as in application/avro; schema=shop.Order")
	}
	return nil, fmt.Errorf("there is no schema %.100q; there are %s", name, strings.Join(s.names(), ", "))
}

func (s *schemas) names() []string {
	var names []string
	for name := range s.byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
