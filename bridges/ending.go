package bridges

import "context"

// endingKey finds, in a request's context, the channel that closes when its server is to end.
type endingKey struct{}

// WithEnding returns a context for requests of a server that is to end when the channel closes.
func WithEnding(ctx context.Context, ending <-chan struct{}) context.Context {
	return context.WithValue(ctx, endingKey{}, ending)
}

// Ending closes when the server that took the request is to end: a request that would wait ends then. It
// is nil, and never closes, where no server has said so.
func Ending(ctx context.Context) <-chan struct{} {
	ending, _ := ctx.Value(endingKey{}).(<-chan struct{})
	return ending
}
