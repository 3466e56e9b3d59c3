package pipeline

import (
	"fmt"
	"strings"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/core/broker/internal/entity"
)

type Result []Item

func (r Result) IsPlain() bool {
	for i := range r {
		if !r[i].isPlain() {
			return false
		}
	}
	return true
}

// Refusal returns why the group is not stored (a verdict refuses a message, or is missing), or nil.
func (r Result) Refusal() error {
	if text := r.rejections(); text != "" {
		return core.Refuse(core.NotAllowed, "%s.", strings.TrimSuffix(text, "."))
	}
	for i := range r {
		if r[i].State == Refused {
			return r[i].err
		}
	}
	return nil
}

const (
	maxRejections    = 5
	maxRejectionText = 500
)

func (r Result) rejections() string {
	var all []string // a message may have several reasons from a schema, separated by semicolons
	for i := range r {
		if left := maxRejections - len(all); r[i].State == Rejected && left > 0 {
			why := strings.Split(core.TextOf(r[i].err), "; ")
			why[0] = fmt.Sprintf("Message %d of %d: %s", i+1, len(r), why[0])
			all = append(all, why[:min(len(why), left)]...)
		}
	}
	return core.Truncate(strings.Join(all, "; "), maxRejectionText)
}

// ParkBehind parks the messages that would overtake a parked message of the group or, if behind is
// true, of an earlier group. It reports whether the group has a parked message.
func (r Result) ParkBehind(behind bool) bool {
	for i := range r {
		if behind && r[i].State == Kept {
			r[i].park()
		}
		behind = behind || r[i].State == Parked
	}
	return behind
}

// AddResult adds r, the result of a group, to w. For each message of r it returns the index of the
// message's number in the numbers that Commit returns, or -1 if the message gets none.
func AddResult(w *core.Work, v *entity.View, r Result) []int {
	at := make([]int, len(r))
	for i := range r {
		x := &r[i]
		at[i] = -1
		switch {
		case x.State == Parked: // duplicate detection checks the message's id when the message leaves the transfer queue
			parked := transferCopy(x.Message, v.Name)
			if x.Message.Transit == nil || x.Message.Transit.Key == "" {
				w.Transfers = append(w.Transfers, parked)
				continue
			}
			known := *x.Message // the partition remembers its key, so that a repetition parks nothing, but not its id
			known.MessageID = core.ID{}
			at[i] = len(w.Messages)
			w.Messages = append(w.Messages, &known)
			w.Effects = append(w.Effects, core.Effect{Of: at[i], Instead: true, Transfers: []*core.Message{parked}})
			continue
		case x.State == Gone && len(x.transfers) == 0 && x.dead == nil && !v.Settings.RequiresDuplicateDetection:
			continue
		}
		at[i] = len(w.Messages)
		w.Messages = append(w.Messages, x.Message)
		if x.isPlain() {
			continue
		}
		effect := core.Effect{Of: at[i], Instead: x.State == Gone, Transfers: x.transfers}
		if x.dead != nil {
			effect.DeadLetters = []*core.Message{x.dead}
		}
		w.Effects = append(w.Effects, effect)
	}
	return at
}
