package value

// Opt is a scalar that may be absent.
type Opt[T any] struct {
	V   T
	Set bool
}

// Some makes a present Opt.
func Some[T any](v T) Opt[T] { return Opt[T]{V: v, Set: true} }

// Or returns the value, or def when it is absent.
func (o Opt[T]) Or(def T) T {
	if o.Set {
		return o.V
	}
	return def
}
