package doctor

// Need is what an SDK is known to need of a gateway or of its program.
type Need struct {
	SDK  string `json:"sdk"`
	Text string `json:"text"`
	Page string `json:"page"` // of the documentation, which has more
}

// Needs are what the SDKs are known to need. A test compares them with the pages.
func Needs() []Need {
	return []Need{
		{"Go", "Management uses HTTPS also with UseDevelopmentEmulator=true: trust the development CA.", "quickstart.md"},
		{"JavaScript", "Management uses HTTPS also with UseDevelopmentEmulator=true: trust the development CA.", "quickstart.md"},
		{"Python", "Without UseDevelopmentEmulator=true messages go to port 5671, whatever the endpoint says: listen there. Messages trust connection_verify=, management REQUESTS_CA_BUNDLE.", "quickstart.md"},
		{"Java", "Management goes to port 443: listen there, or add the policy of the quick start that sets the port.", "quickstart.md"},
		{".NET", "Management keeps the endpoint's port from 7.20.1 on; before that it goes to 443, or to 80 with UseDevelopmentEmulator=true.", "quickstart.md"},
		{"kombu", "Connects with TLS to 5671, and to 443 to make queues.", "clients.md"},
		{"Rust", "azservicebus drops the port of a connection string, but keeps that of a namespace.", "clients.md"},
	}
}
