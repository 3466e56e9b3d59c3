package faults

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/crosstown-mq/crosstown/core"
)

// set is the rules of a namespace, as a Book keeps them.
type set struct {
	Made  int // rules that were named here
	Rules []entry
}

// entry is a rule that was added.
type entry struct {
	Rule
	ID   string // of no other rule, also if that has the same name
	Ends time.Time
}

// parse reads what text makes of a set; "" is the empty one.
func parse(text string) (s set, err error) {
	if text == "" {
		return s, nil
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("the fault rules of the namespace cannot be read: %w", err)
	}
	return s, nil
}

func newEntry(rule Rule, now time.Time) entry {
	return entry{rule, core.NewIncarnation(), now.Add(rule.Life)}
}

// text is the set in the form that parse reads.
func (s *set) text() (string, error) {
	raw, err := json.Marshal(s)
	return string(raw), err
}

// index is where the rule of a name is, -1 if there is none.
func (s *set) index(name string) int {
	return slices.IndexFunc(s.Rules, func(e entry) bool { return e.Name == name })
}

// expire removes the rules whose life has ended.
func (s *set) expire(now time.Time) {
	s.Rules = slices.DeleteFunc(s.Rules, func(e entry) bool { return now.After(e.Ends) })
}

// add adds a rule behind the others. It refuses a rule that makes no sense, a name that is taken, and
// more than MaxRules.
func (s *set) add(rule Rule, now time.Time) (entry, error) {
	if err := rule.check(); err != nil {
		return entry{}, err
	}
	if len(s.Rules) >= MaxRules {
		return entry{}, core.Refuse(core.QuotaExceeded, "There are %d fault rules, which is the limit: remove some.", MaxRules)
	}
	if rule.Name == "" {
		s.Made++
		rule.Name = fmt.Sprintf("fault-%d", s.Made)
	}
	if s.index(rule.Name) >= 0 {
		return entry{}, core.Refuse(core.AlreadyExists, "There is a fault rule '%s' already.", rule.Name)
	}
	e := newEntry(rule, now)
	s.Rules = append(s.Rules, e)
	return e, nil
}

// configure adds a rule unless it is there. One of the same name that differs is replaced.
func (s *set) configure(rule Rule, now time.Time) error {
	if err := rule.check(); err != nil {
		return err
	}
	i := s.index(rule.Name)
	if i < 0 {
		_, err := s.add(rule, now)
		return err
	}
	if !reflect.DeepEqual(s.Rules[i].Rule, rule) {
		s.Rules[i] = newEntry(rule, now)
	}
	return nil
}

// Validate returns what is wrong with each of a namespace's rules, nil for nothing.
func Validate(rules []Rule) []error {
	var s set
	errs := make([]error, len(rules))
	for i := range rules {
		_, errs[i] = s.add(rules[i], time.Time{})
	}
	return errs
}
