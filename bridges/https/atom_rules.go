package https

import (
	"net/http"

	"github.com/crosstown-mq/crosstown/core"
)

// listRules is a page of the feed of a subscription's rules. One more than asked
// for is fetched, to know whether there is a next page.
func (m *management) listRules() error {
	p, err := parsePage(m.r, m.at, "Rules")
	if err != nil {
		return err
	}
	all, err := m.front.Rules(m.r.Context(), m.id, m.target.node(), p.skip, p.top+1)
	if err != nil {
		return m.denied(read, err)
	}
	var entries []byte
	for _, rule := range all[:min(p.top, len(all))] {
		entries = appendRuleEntry(entries, m.at, m.target, rule)
	}
	p.write(m.w, entries, len(all) > p.top)
	return nil
}

func (m *management) getRule() error {
	rule, err := m.front.Rule(m.r.Context(), m.id, m.target.node(), m.target.rule)
	if err != nil {
		return m.denied(read, err)
	}
	writeAtom(m.w, http.StatusOK, entryType, appendRuleEntry(nil, m.at, m.target, rule))
	return nil
}

// putRule creates a rule or, with an If-Match header, replaces it.
func (m *management) putRule() error {
	description, err := readDescription(m.w, m.r)
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
	if named := m.target.rule; named != "" {
		if rule.Name != "" && core.FoldName(rule.Name) != core.FoldName(named) {
			return core.Refuse(core.InvalidArgument, "The rule is named '%s' in the path and '%s' in <Name>: give it one name.", named, rule.Name)
		}
		rule.Name = named
	}
	do, status := m.front.CreateRule, http.StatusCreated
	if m.r.Header.Get("If-Match") != "" {
		do, status = m.front.UpdateRule, http.StatusOK
	}
	if rule, err = do(m.r.Context(), m.id, m.target.node(), rule); err != nil {
		return m.denied(write, err)
	}
	writeAtom(m.w, status, entryType, appendRuleEntry(nil, m.at, m.target, rule))
	return nil
}

func (m *management) deleteRule() error {
	if err := m.front.DeleteRule(m.r.Context(), m.id, m.target.node(), m.target.rule); err != nil {
		return m.denied(remove, err)
	}
	_ = respond(m.w, http.StatusOK, nil)
	return nil
}
