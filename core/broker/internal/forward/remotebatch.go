package forward

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

const (
	remoteBatchBytes = 8 << 20
	// remoteTimeout is how long a step waits for remotes. A step of a transfer queue waits only for
	// transferTimeout, because messages for other destinations wait, too.
	remoteTimeout   = 2 * time.Minute
	transferTimeout = forwardLock / 2
)

// holdBack notes that the message with index i could not be sent yet. If all messages go to one
// remote, the message is released: the next step locks it again, before later ones with the same
// key. In a transfer queue it stays locked, so that messages for other destinations can be moved.
func (fb *forwardBatch) holdBack(i int, to destination) {
	if fb.pf.parent.remote == "" {
		fb.pf.holdBack(&fb.ds[i], to)
		return
	}
	fb.pf.remoteStalled = true
	fb.returned = append(fb.returned, fb.ds[i])
}

// send sends a batch to a remote in chunks. It stops after a chunk in which a message failed,
// because later messages must not overtake that message. After a crash the batch is sent again.
func (fb *forwardBatch) send(ctx context.Context, b *batch) {
	name, entity, _ := strings.Cut(b.to.remote, ":")
	for smooth := true; len(b.ms) > 0 && smooth && ctx.Err() == nil; {
		n := chunk(b.ms)
		smooth = fb.noteAnswers(b, fb.route.remotes[name].Send(ctx, entity, b.ms[:n]))
		b.ms, b.at = b.ms[n:], b.at[n:]
	}
	fb.mu.Lock()
	defer fb.mu.Unlock()
	for _, i := range b.at {
		fb.holdBack(i, b.to)
	}
}

func chunk(ms []*core.Message) (n int) {
	for size := 0; n < len(ms); n++ {
		if size += ms[n].Size(); n > 0 && size > remoteBatchBytes {
			break
		}
	}
	return n
}

func (fb *forwardBatch) noteAnswers(b *batch, answers []error) (smooth bool) {
	fb.mu.Lock()
	defer fb.mu.Unlock()
	smooth = true
	for i, err := range answers {
		at := b.at[i]
		switch {
		case err == nil:
			fb.settle(at, core.Settlement{}, stored{to: b.to.remote})
		case IsPermanent(err) && core.CodeOf(err) != core.NotFound:
			fb.reject(at, err)
		default:
			smooth = false
			if _, ok := errors.AsType[*core.Away](err); ok {
				fb.pf.remoteAway = true
			}
			fb.holdBack(at, b.to)
		}
	}
	return smooth
}

func (fb *forwardBatch) sendAll(ctx context.Context, batches []*batch) {
	patience := remoteTimeout
	if fb.p.Sub == core.Transfer {
		patience = transferTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	defer context.AfterFunc(fb.pf.parent.set.Barrier.Pausing(), cancel)()
	renewed := make(chan struct{})
	go func() {
		defer close(renewed)
		fb.renewLocks(ctx, cancel)
	}()
	for _, b := range batches {
		fb.send(ctx, b)
	}
	cancel()
	<-renewed
}

// renewLocks renews the locks of the forward batch until ctx ends. It calls cancel if the store has
// not answered for so long that the locks may end.
func (fb *forwardBatch) renewLocks(ctx context.Context, cancel func()) {
	tokens := make([]core.LockToken, len(fb.ds))
	for i := range fb.ds {
		tokens[i] = fb.ds[i].LockToken
	}
	tick := time.NewTicker(forwardLock / 5)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		asked := time.Now()
		call, done := context.WithTimeout(ctx, CallTimeout)
		renewals := fb.p.Renew(call, tokens)
		done()
		if len(renewals) > 0 && (renewals[0].Err == nil || core.CodeOf(renewals[0].Err) == core.LockLost) {
			fb.mu.Lock()
			fb.locked = asked
			fb.mu.Unlock()
		}
		if fb.isTooLate() {
			cancel()
			return
		}
	}
}

func newRemotes(given map[string]core.Remote) map[string]core.Remote {
	all := make(map[string]core.Remote, len(given))
	for name, r := range given {
		all[core.FoldName(name)] = r
	}
	return all
}

func (s *Forwarders) CheckRemote(setting, to, remote, entity string) error {
	switch {
	case entity == "":
		return core.Refuse(core.InvalidArgument, "%s is '%s', which names no entity of the remote: write REMOTE:ENTITY.", setting, to)
	case s.remotes[core.FoldName(remote)] != nil:
		return nil
	case len(s.remotes) == 0:
		return core.Refuse(core.InvalidArgument, "%s is '%s', but the namespace has no remotes: add the remote '%s' to the gateway's configuration.", setting, to, remote)
	}
	return core.Refuse(core.InvalidArgument, "%s is '%s', but the namespace has no remote '%s': use one of its remotes (%s), or add the remote to the gateway's configuration.",
		setting, to, remote, strings.Join(slices.Sorted(maps.Keys(s.remotes)), ", "))
}
