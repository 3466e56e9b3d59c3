// Package rightstest asks a gateway for every operation, over every transport, with
// every kind of credential, and compares each answer with a model of the rights.
package rightstest

import "strings"

// A credential is what a client shows to the gateway, and what it is good for.
type credential struct {
	name  string
	token string // as HTTP's Authorization header and $cbs get it
	// policy and key are those of SASL PLAIN and HTTP Basic; "" is not a credential for these.
	policy, key string
	host        string // by which the client calls the gateway

	namespace string // that it is good for; "": none, the credential is not valid
	rights    string // of "Send", "Listen", "Manage"
	resource  string // that it was signed for, with all below it; "": the whole namespace
	entity    string // the queue or topic that has the policy; "": the namespace has it
}

// The two namespaces of a gateway that is asked.
const (
	home  = "home" // the gateway's own
	other = "other"
)

// may is the model: whether the credential is good for a need, which is one of
//
//	anybody             no credential is needed
//	nobody              there is no such operation
//	Send RESOURCE       the right, there; likewise Listen and Manage
//	Manage              the right, in the whole namespace of the credential
//	manager of other    Manage in all of the namespace other, or of the gateway's own
//	operator            Manage in all of the gateway's own namespace
//	A, B                both
//
// url is what an HTTP client calls: as its URL it may be what a token was signed for.
func (c *credential) may(need, url string) bool {
	for each := range strings.SplitSeq(need, ", ") {
		right, resource, _ := strings.Cut(each, " ")
		var ok bool
		switch {
		case each == "anybody":
			ok = true
		case each == "operator":
			ok = c.manages(home)
		case each == "manager of other":
			ok = c.manages(home) || c.manages(other)
		default:
			ok = strings.Contains(c.rights, right) && c.reaches(resource, url)
		}
		if !ok {
			return false
		}
	}
	return true
}

func (c *credential) manages(namespace string) bool {
	return c.namespace == namespace && strings.Contains(c.rights, "Manage") && c.resource == "" && c.entity == ""
}

// reaches says how far a credential goes: from the resource that it was signed for to all
// paths below it, but with an entity's own policy not beyond that entity.
func (c *credential) reaches(resource, url string) bool {
	if c.entity != "" && c.entity != entityOf(resource) {
		return false
	}
	return below(resource, c.resource) || url != "" && below(url, c.resource) && below(c.resource, resource)
}

func below(path, above string) bool {
	return above == "" || path == above || strings.HasPrefix(path, above+"/")
}

// entityOf is the queue or topic that a resource is, or is a part of.
func entityOf(resource string) string {
	resource, _, _ = strings.Cut(resource, "/$")
	resource, _, _ = strings.Cut(resource, "/subscriptions/")
	return resource
}
