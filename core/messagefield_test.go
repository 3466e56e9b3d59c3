package core

import (
	"testing"
)

func TestMessageFieldsAreSetAndUnset(t *testing.T) {
	t.Parallel()
	bits := TextFields(0)
	for i := range MessageFields {
		f := &MessageFields[i]
		if (f.Text == nil) == (f.ID == nil) || bits&f.Bit != 0 {
			t.Errorf("%s: got %+v, want one place and a bit of its own", f.Name, f)
		}
		bits |= f.Bit
		m := &Message{}
		if _, set := f.Get(m); set {
			t.Errorf("%s is set in a new message", f.Name)
		}
		f.Set(m, "x")
		if s, set := f.Get(m); s != "x" || !set {
			t.Errorf("%s: got %q, %v", f.Name, s, set)
		}
		f.Set(m, "")
		if s, set := f.Get(m); s != "" || set != (f.Bit != 0) || m.EmptyText != f.Bit {
			t.Errorf("%s, empty: got %q, %v", f.Name, s, set)
		}
		if f.Unset(m); m.EmptyText != 0 {
			t.Errorf("%s: it is set after Unset", f.Name)
		}
	}
}

// Correlation filters test fields of messages.
func TestConditionsAreOnMessageFields(t *testing.T) {
	t.Parallel()
	names := map[string]bool{}
	for _, f := range MessageFields {
		names[f.Name] = true
	}
	for name := range (&Correlation{}).Conditions() {
		if !names[name] {
			t.Errorf("%s is not a field of messages", name)
		}
	}
}
