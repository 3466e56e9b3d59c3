package rules

// Truth is an answer of SQL's three-valued logic. The zero Truth is Unknown.
type Truth int8

// The three answers, in the order in which AND takes the least and OR the greatest.
const (
	False   Truth = -1
	Unknown Truth = 0
	True    Truth = 1
)

// truthOf is the answer of a plain condition.
func truthOf(b bool) Truth {
	if b {
		return True
	}
	return False
}

// Not exchanges True and False.
func (t Truth) Not() Truth { return -t }

// And is False if one of the two is, else Unknown if one of the two is.
func (t Truth) And(o Truth) Truth { return min(t, o) }

// Or is True if one of the two is, else Unknown if one of the two is.
func (t Truth) Or(o Truth) Truth { return max(t, o) }

// String is TRUE, FALSE or UNKNOWN.
func (t Truth) String() string {
	switch {
	case t > 0:
		return "TRUE"
	case t < 0:
		return "FALSE"
	default:
		return "UNKNOWN"
	}
}
