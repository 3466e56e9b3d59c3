package rules

// operand is what a part of the text means: a value or a condition, one of the two.
type operand struct {
	at        int
	value     expression
	condition predicate
}

// continuation says what may follow an operand at the end of a filter.
func (o operand) continuation() string {
	if o.condition != nil {
		return "AND, OR or the end of the text"
	}
	return "a comparison"
}

// predicate returns the operand as a condition: what may be boolean stands for itself.
func (o operand) predicate() (predicate, error) {
	if o.condition != nil {
		return o.condition, nil
	}
	switch v := o.value.(type) {
	case *userProperty, *namedProperty, *bodyField, systemProperty:
		return flag{v}, nil
	case constant:
		if v.isUnknown() || v.kind == boolean {
			return settled(truthOfFlag(v.datum)), nil
		}
	}
	return nil, faultAt(o.at, "expected a condition but found a value that is not compared with anything")
}

// expression returns the operand as a value.
func (o operand) expression() (expression, error) {
	if o.value == nil {
		return nil, faultAt(o.at, "expected a value but found a condition")
	}
	return o.value, nil
}
