package sdk_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/crosstown-mq/crosstown/plugins/sdk"
)

// A router judges each message that is sent to an entity. The program's main calls sdk.Serve with it.
func ExamplePlugin_router() {
	router := sdk.Plugin{
		Name: "by-region",
		OnSend: func(_ context.Context, m *sdk.Message) (sdk.Verdict, error) {
			region, ok := m.Properties["region"].(string)
			if !ok {
				return sdk.DeadLetter("NoRegion", "The message has no property region."), nil
			}
			m.Properties["routed-by"] = "by-region"
			return sdk.To("orders-" + region), nil
		},
	}

	m := &sdk.Message{Properties: map[string]any{"region": "eu"}}
	_, err := router.OnSend(context.Background(), m) // as the gateway does
	fmt.Println(m.Properties["routed-by"], err)
	// Output: by-region <nil>
}

// A serializer reads payloads of its content types as values, and writes values as such payloads.
func ExamplePlugin_serializer() {
	csv := sdk.Plugin{
		Name:         "csv",
		ContentTypes: []string{"text/csv"},
		Decode: func(_ context.Context, _ string, payload []byte) (any, error) {
			var fields sdk.List
			for field := range strings.SplitSeq(string(payload), ",") {
				fields = append(fields, field)
			}
			return fields, nil
		},
		Encode: func(_ context.Context, _ string, v any) ([]byte, error) {
			fields, ok := v.(sdk.List)
			if !ok {
				return nil, fmt.Errorf("a %T is not a list of fields", v)
			}
			texts := make([]string, len(fields))
			for i, field := range fields {
				texts[i] = fmt.Sprint(field)
			}
			return []byte(strings.Join(texts, ",")), nil
		},
	}

	v, err := csv.Decode(context.Background(), "text/csv", []byte("order-17,3,chairs"))
	fmt.Println(v, err)
	payload, err := csv.Encode(context.Background(), "text/csv", sdk.List{"order-18", int64(1)})
	fmt.Println(string(payload), err)
	// Output:
	// [order-17 3 chairs] <nil>
	// order-18,1 <nil>
}
