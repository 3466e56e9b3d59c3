package remote

import (
	"context"
	"fmt"
	"strings"
	"sync"

	goamqp "github.com/Azure/go-amqp"

	"github.com/crosstown-mq/crosstown/core/value"
)

// management sends requests to the $management nodes of entities, one at a time.
type management struct {
	connection *connection

	mu    sync.Mutex // held during a request
	nodes map[string]*node
}

// ask sends a request to entity's node. An operation without a result has an empty response. A
// refusal is a *goamqp.Error.
func (m *management) ask(ctx context.Context, entity, operation string, arguments map[string]any) (value.Map, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, linkTimeout)
	defer cancel()
	n, err := m.node(ctx, entity)
	if err != nil {
		return nil, err
	}
	answer, err := n.ask(ctx, operation, arguments)
	if err != nil { // the links may be broken, or a late response would seem to belong to the next request
		delete(m.nodes, entity)
		n.close()
	}
	return answer, err
}

func (m *management) node(ctx context.Context, entity string) (*node, error) {
	if n := m.nodes[entity]; n != nil {
		return n, nil
	}
	if err := m.connection.tokens.prove(ctx, m.connection, entity); err != nil {
		return nil, err
	}
	n, err := m.connection.node(ctx, entity+"/$management", fmt.Sprintf("crosstown-management-%d", m.connection.tag.Add(1)), 1)
	if err != nil {
		return nil, err
	}
	m.nodes[entity] = n
	return n, nil
}

func (n *node) ask(ctx context.Context, operation string, arguments map[string]any) (value.Map, error) {
	answer, err := n.request(ctx, operation, map[string]any{"operation": operation}, arguments)
	if err != nil {
		return nil, err
	}
	status, _ := answer.Properties.Get("statusCode")
	switch code, _ := value.Int(status); code {
	case 200:
	case 204:
		return nil, nil
	default:
		condition, _ := answer.Properties.Get("errorCondition")
		why, _ := answer.Properties.Get("statusDescription")
		return nil, &goamqp.Error{Condition: goamqp.ErrCond(textOf(condition)), Description: strings.TrimSpace(textOf(why))}
	}
	body, err := answer.Body.Value()
	if err != nil {
		return nil, err
	}
	fields, ok := body.(value.Map)
	if !ok {
		return nil, fmt.Errorf("the body of the remote's response to %s is not a map", operation)
	}
	return fields, nil
}

func textOf(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case value.Symbol:
		return string(v)
	}
	return ""
}
