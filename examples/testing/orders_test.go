package orders

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"

	"github.com/crosstown-mq/crosstown/core"
	"github.com/crosstown-mq/crosstown/gateway/crosstowntest"
)

// start starts a gateway with the program's entities, and connects to it.
func start(t *testing.T) (*crosstowntest.Bus, *azservicebus.Client) {
	t.Helper()
	bus := crosstowntest.Start(t,
		crosstowntest.Queue(Orders, func(s *core.Settings) { s.RequiresSession, s.MaxDeliveryCount = true, 3 }),
		crosstowntest.Queue(Reminders),
	)
	c, err := azservicebus.NewClientFromConnectionString(bus.ConnectionString, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return bus, c
}

func TestOrdersOfACustomerAreChargedInTheirOrder(t *testing.T) {
	t.Parallel()
	bus, c := start(t)
	soon := time.Now().Add(100 * time.Millisecond)
	for _, order := range []string{"a tea", "b milk"} {
		if err := Place(t.Context(), c, "ann", order, soon); err != nil {
			t.Fatal(err)
		}
	}
	var charged []string
	err := ChargeCustomer(t.Context(), c, "ann", 2, func(_ context.Context, customer, order string) error {
		charged = append(charged, customer+" "+order)
		return nil
	})
	if want := []string{"ann a tea", "ann b milk"}; err != nil || !slices.Equal(charged, want) {
		t.Errorf("charged %q, %v; want %q", charged, err, want)
	}
	bus.ExpectEmpty(Orders)
	bus.ExpectMessages(Reminders, "pay a tea", "pay b milk")
}

func TestAnOrderThatFailsIsTriedThreeTimes(t *testing.T) {
	t.Parallel()
	bus, c := start(t)
	if err := Place(t.Context(), c, "bob", "rum", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	tries := 0
	err := ChargeCustomer(t.Context(), c, "bob", 3, func(context.Context, string, string) error {
		tries++
		return errors.New("the bank does not answer")
	})
	if err != nil || tries != 3 {
		t.Errorf("%d tries, %v; want 3", tries, err)
	}
	bus.ExpectDeadLetters(Orders, core.ReasonMaxDeliveryCount)
}

func TestAHopelessOrderIsPutAside(t *testing.T) {
	t.Parallel()
	bus, c := start(t)
	if err := Place(t.Context(), c, "cat", "nothing", time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	err := ChargeCustomer(t.Context(), c, "cat", 1, func(context.Context, string, string) error { return ErrHopeless })
	if err != nil {
		t.Fatal(err)
	}
	bus.ExpectDeadLetters(Orders, "Hopeless")
	bus.ExpectEmpty(Orders)
}
