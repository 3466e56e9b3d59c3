package bench

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestValidateNamesEveryProblem(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*Options)
		want   []string // one per problem, in its text; none: valid
	}{
		{"defaults", func(*Options) {}, nil},
		{"duration", func(o *Options) { o.Duration = time.Second }, nil},
		{"send only", func(o *Options) { o.Receivers = 0 }, nil},
		{"small without verification", func(o *Options) { o.Size, o.Verify = 0, false }, nil},
		{"no target", func(o *Options) { o.URLs = nil }, []string{"--url"}},
		{"two targets", func(o *Options) { o.ConnectionString = "Endpoint=sb://h/" }, []string{"either --url or --connection-string"}},
		{"no entity", func(o *Options) { o.Entity = "" }, []string{"--entity"}},
		{"bad scheme", func(o *Options) { o.URLs = []string{"http://u:secret@h"} }, []string{"amqps://"}},
		{"both ends", func(o *Options) { o.Messages, o.Duration = 1, 1 }, []string{"either --messages or --duration"}},
		{"small", func(o *Options) { o.Size = stampSize - 1 }, []string{"--size 35"}},
		{"latency", func(o *Options) { o.Mode, o.Rate, o.FillThenDrain = Latency, 0, true }, []string{"--rate 0", "leave out --receivers 0 and --fill-then-drain"}},
		{"lone", func(o *Options) { o.Mode, o.Receivers = Lone, 0 }, []string{"--mode lone requires receivers"}},
		{"sessions", func(o *Options) { o.Mode, o.Duration = Sessions, 1 }, []string{"--mode sessions uses one queue"}},
		{"queues", func(o *Options) { o.Queues = 5 }, []string{"--queues 5: each queue requires a sender and a receiver, but there are 4 senders and 4 receivers"}},
		{"idle", func(o *Options) { o.Mode, o.Queues = Idle, 5 }, nil},
		{
			"many", func(o *Options) { o.Senders, o.Credit, o.Settle, o.Mode, o.Patience = 0, -1, "x", "y", 0 },
			[]string{`--mode "y"`, `--settle "x"`, "--senders 0", "--credit -1", "--patience"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := Defaults()
			o.URLs, o.Entity = []string{"amqp://localhost"}, "q"
			tt.change(&o)
			err := o.Validate()
			if (err == nil) != (tt.want == nil) {
				t.Fatalf("got %v, want problems %q", err, tt.want)
			}
			if err == nil {
				return
			}
			lines := strings.Split(err.Error(), "\n")
			if len(lines) != len(tt.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("got %q, want one line each of %q and no password", lines, tt.want)
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %q, want %q named", err, want)
				}
			}
		})
	}
}

func TestTargets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		url, connection string
		entity          string
		want            target
	}{
		{url: "amqp://h", entity: "q", want: target{address: "amqp://h:5672", host: "h", entity: "q"}},
		{url: "amqps://u:p%40ss@h", entity: "q", want: target{address: "amqps://h:5671", host: "h", entity: "q", user: "u", password: "p@ss"}},
		{url: "amqp://[::1]:77", entity: "q", want: target{address: "amqp://[::1]:77", host: "::1", entity: "q"}},
		{
			connection: "Endpoint=sb://h:5300/;SharedAccessKeyName=P;SharedAccessKey=a=b=;UseDevelopmentEmulator=true;", entity: "q",
			want: target{address: "amqp://h:5300", host: "h", entity: "q", claims: true, policy: "P", key: "a=b="},
		},
		{
			connection: "endpoint=sb://h/;SharedAccessSignature=SharedAccessSignature sr=x&sig=y;EntityPath=q",
			want:       target{address: "amqps://h:5671", host: "h", entity: "q", claims: true, token: "SharedAccessSignature sr=x&sig=y"},
		},
	} {
		o := Options{ConnectionString: tt.connection, Entity: tt.entity}
		if tt.url != "" {
			o.URLs = []string{tt.url}
		}
		got, err := o.targets()
		if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], tt.want) {
			t.Errorf("%s%s: got %+v %v, want %+v", tt.url, tt.connection, got, err, tt.want)
		}
	}
	for _, bad := range []string{"x", "SharedAccessKeyName=P;SharedAccessKey=k", "Endpoint=sb://h/", "Endpoint=sb://h/;SharedAccessKeyName=P"} {
		o := Options{ConnectionString: bad}
		if _, err := o.targets(); err == nil || !strings.HasPrefix(err.Error(), "--connection-string: ") {
			t.Errorf("%s: got %v, want a problem of --connection-string", bad, err)
		}
	}
}
