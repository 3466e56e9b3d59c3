package e2e

import (
	"errors"
	"math/rand/v2"
	"net/url"
	"sync"
	"testing"

	"github.com/crosstown-mq/crosstown/core/store/redis/redistest"
)

// storm lets things fail between clients and the store.
type storm struct {
	*testing.T
	redis    *redistest.Server
	proxy    *redistest.Proxy // through which gateways reach it, as the user gateway
	gateways []*gateway
	happened map[string]int
}

// newStorm starts Redis and two gateways.
func newStorm(t *testing.T) *storm {
	t.Helper()
	r := redistest.Start(t, redistest.Options{AOF: "always"})
	s := &storm{T: t, redis: r, proxy: redistest.Proxied(t, r), happened: map[string]int{}}
	s.user("on", ">secret", "~*", "&*", "+@all")
	u, err := url.Parse(s.proxy.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("gateway", "secret")
	s.gateways = []*gateway{own(t, u.String()), own(t, u.String())}
	return s
}

// user gives Redis' user gateway these rules.
func (s *storm) user(rules ...string) {
	s.Helper()
	args := []any{"ACL", "SETUSER", "gateway"}
	for _, r := range rules {
		args = append(args, r)
	}
	if err := s.redis.Client().Do(s.Context(), args...).Err(); err != nil {
		s.Fatal(err)
	}
}

// expel ends the connections of the user, so that new ones are set up.
func (s *storm) expel() {
	s.Helper()
	if err := s.redis.Client().Do(s.Context(), "CLIENT", "KILL", "USER", "gateway").Err(); err != nil {
		s.Fatal(err)
	}
}

// strike has something fail for a while.
func (s *storm) strike(c *chance) {
	s.Helper()
	kinds := []string{"gateway killed", "Redis killed", "WRONGPASS", "NOPERM", "reset during the set-up", "connections broken"}
	kind := kinds[c.IntN(len(kinds))]
	s.happened[kind]++
	switch kind {
	case "gateway killed":
		s.gateways[c.IntN(len(s.gateways))].killFor(s.T, c.pause)
	case "Redis killed":
		s.redis.Kill()
		c.pause()
		s.redis.Restart(s.T)
		c.pause() // in which it does not know its user
		s.user("on", ">secret", "~*", "&*", "+@all")
	case "WRONGPASS":
		s.user("resetpass", ">another")
		s.expel()
		c.pause()
		s.user("resetpass", ">secret")
	case "NOPERM":
		s.user("-@all")
		s.expel()
		c.pause()
		s.user("+@all")
	case "reset during the set-up":
		var mu sync.Mutex
		dice := rand.New(rand.NewPCG(c.Uint64(), 0))
		began := map[int]int{} // requests by connection
		s.proxy.Meddle(func(q redistest.Request) error {
			mu.Lock()
			defer mu.Unlock()
			if began[q.Connection]++; began[q.Connection] <= 3 && dice.IntN(2) == 0 {
				return errors.New("reset")
			}
			return nil
		})
		s.proxy.Break()
		c.pause()
		s.proxy.Meddle(nil)
	default:
		s.proxy.Break()
	}
}

// A message that was acknowledged comes out of every kind of entity, once by its
// number, and not again once its completion was acknowledged, whatever fails. Sessions
// keep their order.
func TestBooksBalanceOverAllKindsOfEntities(t *testing.T) {
	t.Parallel()
	s := newStorm(t)
	endure(t, s.gateways, defaultKills, s.strike)
	t.Logf("faults: %v", s.happened)
}
