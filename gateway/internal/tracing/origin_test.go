package tracing

import "testing"

func TestTraceParentsAreReadAndWritten(t *testing.T) {
	t.Parallel()
	for s, valid := range map[string]bool{
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01":      true,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00":      true,
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-03":      true,
		"cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more": true, // of a later version
		"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more": false,
		"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01":      false,
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01":      false,
		"|4bf92f3577b34da6a3ce929d0e0e4736.00f067aa0ba902b7.":          false, // the older form of Diagnostic-Id
		"": false,
	} {
		c := parse(s, "vendor=1")
		if c.IsValid() != valid {
			t.Errorf("%q: got %+v, want valid %v", s, c, valid)
		}
		if valid && (c.TraceState().Get("vendor") != "1" || !parse(write(c), "vendor=1").Equal(c)) {
			t.Errorf("%q: got %+v, written %q", s, c, write(c))
		}
		if malformed := parse(s, "no state"); malformed.IsValid() != valid || malformed.TraceState().Len() != 0 {
			t.Errorf("%q with a malformed state: got %+v", s, malformed)
		}
	}
}
