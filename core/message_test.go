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
		text := func() string {
			if f.Text != nil {
				return *f.Text(m)
			}
			return f.ID(m).String()
		}
		if m.Has(f.Bit, text()) {
			t.Errorf("%s is set in a new message", f.Name)
		}
		f.Set(m, "x")
		if got := text(); got != "x" || m.EmptyText != 0 {
			t.Errorf("%s: got %q, empty texts %b", f.Name, got, m.EmptyText)
		}
		f.Set(m, "")
		if got := text(); got != "" || m.Has(f.Bit, got) != (f.Bit != 0) || m.EmptyText != f.Bit {
			t.Errorf("%s, empty: got %q, empty texts %b", f.Name, got, m.EmptyText)
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
