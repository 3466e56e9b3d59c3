package https

import (
	"net/http"

	"github.com/crosstown-mq/crosstown/core"
)

// rules is {subscription}/Rules and what lies below.
func (b *Bridge) rules(w http.ResponseWriter, r *http.Request, at reference, t target) error {
	switch {
	case r.Method == http.MethodPut: // the Go SDK puts a rule without a name to the feed
		return b.putRule(w, r, at, t)
	case t.feed:
		return b.listRules(w, r, at, t)
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		return b.getRule(w, r, at, t)
	case r.Method == http.MethodDelete:
		return b.deleteRule(w, r, at, t)
	}
	return methodNotAllowed(r, "GET, HEAD, PUT, DELETE")
}

// listRules is a page of the feed of a subscription's rules. One more than asked
// for is fetched, to know whether there is a next page.
func (b *Bridge) listRules(w http.ResponseWriter, r *http.Request, at reference, t target) error {
	id, err := b.onlyGet(r, t.node())
	if err != nil {
		return err
	}
	p, err := parsePage(r, at, "Rules")
	if err != nil {
		return err
	}
	all, err := b.front.Rules(r.Context(), id, t.node(), p.skip, p.top+1)
	if err != nil {
		return t.denied(at, read, err)
	}
	var entries []byte
	for _, rule := range all[:min(p.top, len(all))] {
		entries = appendRuleEntry(entries, at, t, rule)
	}
	p.write(w, entries, len(all) > p.top)
	return nil
}

func (b *Bridge) getRule(w http.ResponseWriter, r *http.Request, at reference, t target) error {
	id, err := b.authorize(r, t.node())
	if err != nil {
		return err
	}
	rule, err := b.front.Rule(r.Context(), id, t.node(), t.rule)
	if err != nil {
		return t.denied(at, read, err)
	}
	writeAtom(w, http.StatusOK, entryType, appendRuleEntry(nil, at, t, rule))
	return nil
}

// putRule creates a rule or, with an If-Match header, replaces it.
func (b *Bridge) putRule(w http.ResponseWriter, r *http.Request, at reference, t target) error {
	id, err := b.authorize(r, t.node())
	if err != nil {
		return err
	}
	description, err := readDescription(w, r)
	if err != nil {
		return err
	}
	if name := description.name.Local; name != ruleDescription {
		return core.Refuse(core.InvalidArgument, "The content of the entry is <%s>: that of a rule must be <%s>.", name, ruleDescription)
	}
	rule, err := readRule(description)
	if err != nil {
		return err
	}
	if t.rule != "" && rule.Name != "" && core.FoldName(rule.Name) != core.FoldName(t.rule) {
		return core.Refuse(core.InvalidArgument, "The rule is named '%s' in the path and '%s' in <Name>: give it one name.", t.rule, rule.Name)
	}
	if t.rule != "" {
		rule.Name = t.rule
	}
	do, status := b.front.CreateRule, http.StatusCreated
	if r.Header.Get("If-Match") != "" {
		do, status = b.front.UpdateRule, http.StatusOK
	}
	if rule, err = do(r.Context(), id, t.node(), rule); err != nil {
		return t.denied(at, write, err)
	}
	writeAtom(w, status, entryType, appendRuleEntry(nil, at, t, rule))
	return nil
}

func (b *Bridge) deleteRule(w http.ResponseWriter, r *http.Request, at reference, t target) error {
	id, err := b.authorize(r, t.node())
	if err != nil {
		return err
	}
	if err := b.front.DeleteRule(r.Context(), id, t.node(), t.rule); err != nil {
		return t.denied(at, remove, err)
	}
	_ = respond(w, http.StatusOK, nil)
	return nil
}
