package conn

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core/store/redis/internal/script"
)

type ExchangeMode uint8

const (
	InTransaction ExchangeMode = 1 << iota // in MULTI and EXEC; all keys must be in one slot
	Replicated                             // the answer waits for replicas, if the URL requires any
)

// resends limits how often a command is sent again, to another node or with the whole script.
const resends = 3

// Exchange sends commands together. Each command keeps its own answer. A script call that gets
// NOSCRIPT is sent again with the whole script, without the other commands, because they have run.
// If too few replicas confirm the commands, Exchange returns a NotReplicated, and the commands
// still have their answers.
func (s *Client) Exchange(ctx context.Context, how ExchangeMode, cmds ...*redis.Cmd) error {
	if err := s.Look(); err != nil {
		return failCommands(cmds, err)
	}
	if s.Endpoint.Replicas == 0 || how&Replicated == 0 {
		err := s.pipe(ctx, how, cmds)
		if rest := wholeScripts(cmds); len(rest) > 0 {
			_ = s.pipe(ctx, 0, rest) // each command keeps its error
			err = firstError(cmds)
		}
		return err
	}
	if len(cmds) == 0 {
		return nil
	}
	rest := cmds
	return s.Endpoint.Patience.retry(ctx, cmds[0], func() (err error) {
		for again := 0; ; again++ {
			if err = s.sendReplicated(ctx, how, rest); err != nil {
				if few, ok := errors.AsType[*NotReplicated](err); ok && len(rest) < len(cmds) {
					few.refused = false // the earlier part of the exchange has run
				}
				return err
			}
			if rest, how = unsent(how, rest); again == resends || !slices.ContainsFunc(rest, isElsewhere) {
				return firstError(cmds)
			}
			if s.Cluster != nil && slices.ContainsFunc(rest, isMoved) {
				_, _ = s.Masters(ctx) // refreshes the slot map; if that fails, the next attempt is redirected again
			}
			wholeScripts(rest)
		}
	}, passes)
}

func (s *Client) pipe(ctx context.Context, how ExchangeMode, cmds []*redis.Cmd) error {
	var pipe redis.Pipeliner
	switch {
	case how&InTransaction != 0:
		pipe = s.RDB.TxPipeline()
	case len(cmds) > 1:
		pipe = s.RDB.Pipeline()
	case len(cmds) == 0:
		return nil
	default:
		_ = s.RDB.Process(ctx, once{cmds[0]}) // the command keeps its error
		return cmds[0].Err()
	}
	for _, c := range cmds {
		_ = pipe.Process(ctx, c) // only queues: the error comes from Exec
	}
	_, err := pipe.Exec(ctx)
	return err
}

// once is a command that go-redis must not repeat. In a cluster, MaxRetries does not prevent it.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// wholeScripts replaces the SHA by the script's source in calls that failed with NOSCRIPT.
func wholeScripts(cmds []*redis.Cmd) (unknown []*redis.Cmd) {
	for _, c := range cmds {
		if c.Err() == nil || !redis.HasErrorPrefix(c.Err(), "NOSCRIPT") {
			continue
		}
		args := c.Args()
		source, ok := script.SourceOf(args[1])
		if !ok {
			continue
		}
		args[0], args[1] = "EVAL", source
		c.SetErr(nil)
		unknown = append(unknown, c)
	}
	return unknown
}

// unsent returns the commands that have not run and can be sent again, and the mode for this. An
// aborted transaction is sent again as a whole.
func unsent(how ExchangeMode, cmds []*redis.Cmd) (rest []*redis.Cmd, again ExchangeMode) {
	ran := slices.ContainsFunc(cmds, func(c *redis.Cmd) bool { return c.Err() == nil || IsNil(c.Err()) })
	for _, c := range cmds {
		switch err := c.Err(); {
		case err == nil:
		case redis.HasErrorPrefix(err, "NOSCRIPT"):
			rest, again = append(rest, c), how&^InTransaction
		case passes(err) && how&InTransaction != 0:
			if !ran {
				return cmds, how
			}
		case passes(err):
			rest, again = append(rest, c), how
		}
	}
	return rest, again
}

func isElsewhere(c *redis.Cmd) bool {
	return isMoved(c) || redis.HasErrorPrefix(c.Err(), "ASK") || redis.HasErrorPrefix(c.Err(), "NOSCRIPT")
}

func isMoved(c *redis.Cmd) bool { return redis.HasErrorPrefix(c.Err(), "MOVED") }

func firstError(cmds []*redis.Cmd) error {
	for _, c := range cmds {
		if err := c.Err(); err != nil {
			return err
		}
	}
	return nil
}

func firstKey(c redis.Cmder) string {
	at := 1
	args := c.Args()
	switch args[0] {
	case "EVAL", "EVALSHA":
		at = 3
	case "XGROUP":
		at = 2
	}
	if at >= len(args) {
		return ""
	}
	key, _ := args[at].(string)
	return key
}

type nodeBatch struct {
	node   *redis.Client
	asking bool
	cmds   []*redis.Cmd
}

// sendReplicated sends each of cmds to its master, even while the slot map changes, but a
// transaction as a whole. It returns an error if a master was not reached, or has too few replicas.
func (s *Client) sendReplicated(ctx context.Context, how ExchangeMode, cmds []*redis.Cmd) error {
	var batches []nodeBatch
	var node *redis.Client
	var asking bool
	for i, c := range cmds {
		var err error
		if i == 0 || how&InTransaction == 0 {
			node, asking, err = s.nodeFor(ctx, c)
		}
		if err != nil {
			return failCommands(cmds, err)
		}
		at := slices.IndexFunc(batches, func(b nodeBatch) bool { return b.node == node && b.asking == asking })
		if at < 0 {
			if few := s.Replication.admit(ctx, node, s.Endpoint.Patience.Wait); few != nil {
				return failCommands(cmds, few)
			}
			at, batches = len(batches), append(batches, nodeBatch{node: node, asking: asking})
		}
		batches[at].cmds = append(batches[at].cmds, c)
	}
	errs := make([]error, len(batches))
	var sent sync.WaitGroup
	for i := 1; i < len(batches); i++ {
		sent.Go(func() { errs[i] = s.sendBatch(ctx, how, &batches[i]) })
	}
	errs[0] = s.sendBatch(ctx, how, &batches[0])
	sent.Wait()
	return cmp.Or(errs...)
}

func failCommands(cmds []*redis.Cmd, err error) error {
	for _, c := range cmds {
		c.SetErr(err)
	}
	return err
}

// nodeFor returns the master of c's slot. If the slot is moving and c was redirected, it returns
// the next master, and asking is true.
func (s *Client) nodeFor(ctx context.Context, c *redis.Cmd) (node *redis.Client, asking bool, err error) {
	if addr, ask := redis.IsAskError(c.Err()); ask {
		masters, err := s.Masters(ctx)
		for _, each := range masters {
			if each.Options().Addr == addr {
				return each, true, nil
			}
		}
		if err != nil {
			return nil, false, err
		}
	}
	node, err = s.NodeOf(ctx, firstKey(c))
	return node, false, err
}

func (s *Client) Masters(ctx context.Context) (all []*redis.Client, err error) {
	var mu sync.Mutex
	err = s.Cluster.ForEachMaster(ctx, func(_ context.Context, each *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		all = append(all, each)
		return nil
	})
	return all, err
}

// sendBatch sends the commands and the waits of markAndWait on the same connection.
func (s *Client) sendBatch(ctx context.Context, how ExchangeMode, b *nodeBatch) error {
	marker, err := s.ProbeKey(ctx, b.node)
	if err != nil {
		return failCommands(b.cmds, err)
	}
	pipe := b.node.Pipeline()
	add := func(args ...any) *redis.Cmd { return pipe.Do(ctx, args...) }
	var done *redis.RawCmd
	if how&InTransaction != 0 {
		if b.asking {
			add("ASKING")
		}
		add("MULTI")
	}
	for _, c := range b.cmds {
		c.SetErr(nil)
		if b.asking && how&InTransaction == 0 {
			add("ASKING")
		}
		_ = pipe.Process(ctx, c) // only queues: the error comes from Exec
	}
	if how&InTransaction != 0 {
		done = redis.NewRawCmd(ctx, "EXEC")
		_ = pipe.Process(ctx, done)
	}
	marked, waited := s.Endpoint.markAndWait(ctx, pipe, marker)
	all, err := pipe.Exec(ctx)
	_ = s.Endpoint.Patience.noteAway(ctx, failAll(all, err)) // each command has its error
	if done != nil {
		readTransaction(done, b.cmds)
	}
	for _, c := range all {
		if e := c.Err(); e != nil && !isAnswer(e) {
			return e
		}
	}
	got, refusal := confirmed(waited), cmp.Or(marked.Err(), waited.Err())
	if got >= s.Endpoint.Replicas && refusal == nil {
		return nil
	}
	ran := slices.ContainsFunc(b.cmds, func(c *redis.Cmd) bool { return c.Err() == nil || MayHaveRun(c.Err()) })
	if !ran && refusal != nil {
		return nil // the server refuses all commands, so there is nothing to wait for
	}
	few := &NotReplicated{node: s.Endpoint.nameOf(b.node), want: s.Endpoint.Replicas, got: got, refused: !ran}
	if refusal != nil {
		few.reason = refusal.Error()
	}
	s.Replication.note(s, b.node)
	return few
}

func isAnswer(err error) bool {
	_, ok := errors.AsType[redis.Error](err)
	return ok
}

// confirmed returns the number of replicas that have confirmed. The answer to WAITAOF begins with
// the number of local syncs: if that is 0, the master has not synced, and nothing is confirmed.
func confirmed(waited *redis.Cmd) int {
	switch got := waited.Val().(type) {
	case int64:
		return int(got)
	case []any:
		if len(got) == 2 && got[0] == int64(1) {
			n, _ := got[1].(int64)
			return int(n)
		}
	}
	return 0
}

func readTransaction(exec *redis.RawCmd, cmds []*redis.Cmd) {
	fail := func(err error) {
		for _, c := range cmds {
			if c.Err() == nil { // otherwise the command was refused when it was queued
				c.SetErr(err)
			}
		}
	}
	if exec.Err() != nil {
		fail(exec.Err())
		return
	}
	r := rawReply{exec.Val()}
	v := r.next()
	if err, ok := v.(error); ok {
		fail(err)
		return
	}
	answers, _ := v.([]any)
	if len(answers) != len(cmds) {
		fail(ErrUnanswered)
		return
	}
	for i, c := range cmds {
		switch v := answers[i].(type) {
		case error:
			c.SetErr(v)
		case nil:
			c.SetErr(redis.Nil)
		default:
			c.SetVal(v)
		}
	}
}

// rawReply skips go-redis, whose parser misreads what follows an array that contains an error.
type rawReply struct{ rest []byte }

type refused string

func (e refused) Error() string { return string(e) }

func (refused) RedisError() {}

var _ redis.Error = refused("")

func (r *rawReply) next() any {
	line, rest, _ := bytes.Cut(r.rest, []byte("\r\n"))
	r.rest = rest
	if len(line) == 0 {
		return ErrUnanswered
	}
	text := string(line[1:])
	n, _ := strconv.ParseInt(text, 10, 64)
	switch line[0] {
	case '-':
		return refused(text)
	case ':':
		return n
	case '+':
		return text
	case '$':
		if n < 0 || n+2 > int64(len(r.rest)) {
			return nil
		}
		text, r.rest = string(r.rest[:n]), r.rest[n+2:]
		return text
	case '*':
		if n < 0 {
			return nil
		}
		all := []any{}
		for range n {
			all = append(all, r.next())
		}
		return all
	}
	return ErrUnanswered
}
