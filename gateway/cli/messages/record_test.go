package messages

import (
	"slices"
	"testing"

	"github.com/crosstown-mq/crosstown/gateway/cli/command"
)

// TestAnEntityThatIsNotNamedIsThatOfTheConnectionString is about tail and record, which take several.
func TestAnEntityThatIsNotNamedIsThatOfTheConnectionString(t *testing.T) {
	t.Parallel()
	o := &command.Flags{ConnectionString: "Endpoint=sb://localhost;SharedAccessKeyName=a;SharedAccessKey=a2V5;EntityPath=orders"}
	for _, c := range []struct{ args, want []string }{
		{nil, []string{"orders"}},
		{[]string{""}, []string{"orders"}},
		{[]string{"", "b"}, []string{"orders", "b"}},
		{[]string{"a", "b"}, []string{"a", "b"}},
	} {
		_, got, err := watched(o, c.args)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, %v, want %q", c.args, got, err, c.want)
		}
	}
}
