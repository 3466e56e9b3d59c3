package mailbox

import "testing"

func TestWhatIsPostedIsTakenInOrder(t *testing.T) {
	t.Parallel()
	m, got := New(), ""
	for _, name := range []string{"a", "b"} {
		if !m.Post(func() { got += name }) {
			t.Fatal("an open mailbox takes nothing")
		}
	}
	<-m.Wake()
	for _, job := range m.Take(nil) {
		job()
	}
	if got != "ab" {
		t.Errorf("ran %q, want ab", got)
	}
	if left := m.Take(nil); len(left) != 0 {
		t.Errorf("%d jobs were taken twice", len(left))
	}
}

func TestAClosedMailboxTakesNothing(t *testing.T) {
	t.Parallel()
	m := New()
	m.Post(func() {})
	if m.CloseEmpty() || !m.Post(func() {}) {
		t.Error("it closed with something in it")
	}
	m.Take(nil)
	if !m.CloseEmpty() || m.Post(func() {}) {
		t.Error("it takes something though it was closed empty")
	}
	m = New()
	m.Post(func() {})
	m.Close()
	if m.Post(func() {}) || len(m.Take(nil)) != 0 {
		t.Error("it holds something though it was closed")
	}
}
