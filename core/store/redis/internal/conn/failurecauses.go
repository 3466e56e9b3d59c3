package conn

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/crosstown-mq/crosstown/core"
)

type failure struct {
	cause  string // its name in metrics and health checks
	word   string // the beginning of the server's answer
	within string // if not "": another part of the answer
	text   string // text for clients; "": textBusy
	mayRun bool   // the server may have run a part of the command
	passes bool   // the failure ends by itself, usually within seconds
	remedy string
}

// Clients get these texts, which do not tell them the cause.
const (
	textBusy   = "The message store is busy. Try again."
	textUnseen = "The message store cannot be reached. Try again."
)

var unreachable = failure{cause: "unreachable", passes: true, text: textUnseen, remedy: "check that Redis runs, and the network"}

var tooFewConfirm = failure{
	cause: "not-replicated", passes: true, remedy: "too few replicas confirm writes: check INFO replication and start or repair them, or set a smaller number in --store",
}

var knownFailures = []failure{
	{cause: "refused", word: "EXECABORT", remedy: "see its log"},
	{cause: "out-of-memory", word: "OOM", remedy: "its maxmemory is used up: raise maxmemory, or receive messages"},
	{cause: "no-permission", mayRun: true, word: "NOPERM", remedy: "its user lacks a permission: grant ~* &* +@all, or the missing one, with ACL SETUSER"},
	{cause: "no-permission", mayRun: true, within: "ACL failure in script", remedy: "its user lacks a permission: grant ~* &* +@all, or the missing one, with ACL SETUSER"},
	{cause: "no-permission", mayRun: true, within: "The user executing the script", remedy: "its user lacks a permission: grant ~* &* +@all, or the missing one, with ACL SETUSER"},
	{cause: "wrong-password", word: "WRONGPASS", remedy: "it does not accept the user and password of --store, or the user is disabled"},
	{cause: "wrong-password", word: "NOAUTH", remedy: "it requires a user and password: set them in --store"},
	{cause: "read-only", passes: true, word: "READONLY", remedy: "it is a replica: set the address of the master, or of its Sentinels, in --store"},
	{cause: "cluster-down", passes: true, word: "CLUSTERDOWN", remedy: "some slots have no node: see CLUSTER INFO and CLUSTER NODES"},
	{cause: "cannot-persist", word: "MISCONF", remedy: "it cannot write to its disk: see its log, and free space"},
	{cause: "too-few-replicas", word: "NOREPLICAS", remedy: "fewer replicas are connected than min-replicas-to-write requires"},
	{cause: "loading", passes: true, word: "LOADING", remedy: "it is loading its data: wait until it has finished"},
	{cause: "master-down", passes: true, word: "MASTERDOWN", remedy: "it is a replica without its master: set the address of the master, or of its Sentinels, in --store"},
	{cause: "too-many-clients", word: "max number of clients", remedy: "raise its maxclients"},
	{cause: "busy-script", word: "BUSY", remedy: "a script has run for too long: see SLOWLOG, and SCRIPT KILL"},
	{cause: "resharding", passes: true, word: "TRYAGAIN", remedy: "slots are being moved"},
	{cause: "resharding", passes: true, word: "MOVED", remedy: "slots have been moved: if this persists, set the nodes of the cluster in --store"},
	{cause: "resharding", passes: true, word: "ASK", remedy: "slots are being moved"},
	{cause: "failed-over", mayRun: true, passes: true, word: "UNBLOCKED", remedy: "a replica has taken its place"},
}

// answered returns the known failure that the server has answered, or nil.
func answered(err error) *failure {
	answer, ok := errors.AsType[redis.Error](err)
	for i := 0; i < len(knownFailures) && ok; i++ {
		f := &knownFailures[i]
		if f.word != "" && redis.HasErrorPrefix(err, f.word) || f.within != "" && strings.Contains(answer.Error(), f.within) {
			return f
		}
	}
	return nil
}

// CauseOf returns the known failure that err reports, or nil if it reports none.
func CauseOf(err error) *failure {
	if _, few := errors.AsType[*NotReplicated](err); few {
		return &tooFewConfirm
	}
	if f := answered(err); f != nil {
		return f
	}
	if IsUnreachable(err) {
		return &unreachable
	}
	return nil
}

type Failure struct {
	Cause  string    `json:"cause"`
	Reason string    `json:"reason"`
	Remedy string    `json:"remedy"`
	Last   time.Time `json:"last"`
	Count  uint64    `json:"count"`
}

const minLogInterval = time.Minute

type Failures struct {
	mu    sync.Mutex
	known map[string]*loggedFailure
}

type loggedFailure struct {
	Failure
	loggedAt time.Time
	unlogged int // failures since loggedAt
}

// Note does not log a cause again that was logged recently, and ignores cancelled operations.
func (f *Failures) Note(log *slog.Logger, of *failure, what string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	now := time.Now()
	f.mu.Lock()
	known := f.known[of.cause]
	if known == nil {
		known = &loggedFailure{Failure: Failure{Cause: of.cause, Remedy: of.remedy}}
		if f.known == nil {
			f.known = make(map[string]*loggedFailure)
		}
		f.known[of.cause] = known
	}
	known.Reason, known.Last, known.Count = err.Error(), now, known.Count+1
	known.unlogged++
	untold := known.unlogged
	tell := known.loggedAt.IsZero() || now.Sub(known.loggedAt) >= minLogInterval
	if tell {
		known.loggedAt, known.unlogged = now, 0
	}
	f.mu.Unlock()
	if tell {
		log.Warn("Redis is unavailable: clients get retriable errors", "cause", of.cause, "call", what, "err", err, "remedy", of.remedy, "times", untold)
	}
}

func (f *Failures) All() []Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []Failure
	for _, cause := range slices.Sorted(maps.Keys(f.known)) {
		all = append(all, f.known[cause].Failure)
	}
	return all
}

// Refusal returns the error for clients. After "server busy", SDKs wait for ten seconds. So a
// failure that ends within seconds gets the condition of a time-out, after which SDKs retry at
// once.
func (f *failure) Refusal() error {
	r := &core.Refusal{Code: core.Busy, Text: cmp.Or(f.text, textBusy)}
	if f.passes {
		r.Condition = "com.microsoft:timeout"
	}
	return r
}

// IsAway returns the cause of err. away is true if Open may succeed later with the same settings.
func IsAway(err error) (cause string, away bool) {
	f := CauseOf(err)
	if f == nil {
		return "", false
	}
	return f.cause, f.cause != "wrong-password" && f.cause != "no-permission"
}
