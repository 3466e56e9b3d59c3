package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"mime"
	"os"
	"path/filepath"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

type types struct{ files *protoregistry.Files }

// loadTypes reads the descriptor sets in a directory: .binpb files, which protoc writes with
// --include_imports --descriptor_set_out.
func loadTypes(dir string) (*types, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.binpb"))
	if err != nil || len(names) == 0 {
		return nil, errors.Join(fmt.Errorf("there is no descriptor set in %s: put .binpb files there", dir), err)
	}
	all := &descriptorpb.FileDescriptorSet{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		var set descriptorpb.FileDescriptorSet
		if err := proto.Unmarshal(b, &set); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, f := range set.GetFile() {
			if !slices.ContainsFunc(all.GetFile(), func(g *descriptorpb.FileDescriptorProto) bool { return g.GetName() == f.GetName() }) {
				all.File = append(all.GetFile(), f)
			}
		}
	}
	files, err := protodesc.NewFiles(all)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return &types{files}, nil
}

const maxDepth = 30

// decode reads a message of the type in the content type: application/protobuf;
// messageType=shop.Order. The parameter is required, because the encoding does not contain the
// type. decode omits unknown fields.
func (t *types) decode(_ context.Context, contentType string, payload []byte) (any, error) {
	d, err := t.named(contentType)
	if err != nil {
		return nil, err
	}
	m := dynamicpb.NewMessage(d)
	if err := (proto.UnmarshalOptions{RecursionLimit: maxDepth}).Unmarshal(payload, m); err != nil {
		return nil, err
	}
	return read(m), nil
}

func (t *types) encode(_ context.Context, contentType string, v any) ([]byte, error) {
	d, err := t.named(contentType)
	if err != nil {
		return nil, err
	}
	m := dynamicpb.NewMessage(d)
	if err := write(m, v, maxDepth); err != nil {
		return nil, err
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(m)
}

func (t *types) named(contentType string) (protoreflect.MessageDescriptor, error) {
	_, parameters, err := mime.ParseMediaType(contentType)
	name := cmp.Or(parameters["messagetype"], parameters["proto"])
	if err != nil || name == "" {
		return nil, errors.New("the content type names no message type, as in application/protobuf; messageType=shop.Order")
	}
	d, err := t.files.FindDescriptorByName(protoreflect.FullName(name))
	m, ok := d.(protoreflect.MessageDescriptor)
	if err != nil || !ok {
		return nil, fmt.Errorf("there is no message type %.100q", name)
	}
	return m, nil
}
