// Package rightstest requests every operation of a gateway, over every transport, with every kind
// of credential, and compares each answer with a model of the rights.
package rightstest

import "strings"

type credential struct {
	name  string
	token string // for HTTP's Authorization header and $cbs
	// policy and key are for SASL PLAIN and HTTP Basic; "" if these cannot be used.
	policy, key string
	host        string // that the client calls

	namespace string // where the credential is valid, or ""
	rights    string // of "Send", "Listen", "Manage"
	resource  string // path that the credential was signed for, with everything below; "" for the whole namespace
	entity    string // queue or topic with the policy; "" for a policy of the namespace
}

const (
	home  = "home" // the gateway's own
	other = "other"
)

// may is the model: it reports whether the credential satisfies a need, which is one of
//
//	anybody             no credential is needed
//	nobody              there is no such operation
//	Send RESOURCE       the right, there; likewise Listen and Manage
//	Manage              the right, in the whole namespace of the credential
//	manager of other    Manage in all of the namespace other, or of the gateway's own
//	operator            Manage in all of the gateway's own namespace
//	A, B                both
//
// url is the URL that an HTTP client calls: a token may have been signed for it.
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

// reaches reports whether a credential covers a resource: the one that it was signed for, and all
// paths below it. An entity's own policy covers only that entity.
func (c *credential) reaches(resource, url string) bool {
	if c.entity != "" && c.entity != entityOf(resource) {
		return false
	}
	return below(resource, c.resource) || url != "" && below(url, c.resource) && below(c.resource, resource)
}

func below(path, above string) bool {
	return above == "" || path == above || strings.HasPrefix(path, above+"/")
}

func entityOf(resource string) string {
	resource, _, _ = strings.Cut(resource, "/$")
	resource, _, _ = strings.Cut(resource, "/subscriptions/")
	return resource
}
