package main

import (
	"context"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// work answers questions until ctx ends. Each question names the queue for its answer.
func work(ctx context.Context, client *azservicebus.Client) error {
	receiver, err := client.NewReceiverForQueue(questions, nil)
	if err != nil {
		return err
	}
	sender, err := client.NewSender(answers, nil)
	if err != nil {
		return err
	}
	finish := context.WithoutCancel(ctx) // for answers to received questions
	for {
		ms, err := receiver.ReceiveMessages(ctx, 10, nil)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, m := range ms {
			if m.ReplyTo == nil || *m.ReplyTo != answers {
				if err := receiver.DeadLetterMessage(finish, m, &azservicebus.DeadLetterOptions{Reason: new("no way back")}); err != nil {
					return err
				}
				continue
			}
			answer := &azservicebus.Message{
				Body:          []byte(roman(string(m.Body))),
				ContentType:   new("text/plain"),
				CorrelationID: &m.MessageID,
				SessionID:     m.ReplyToSessionID,
			}
			if err := sender.SendMessage(finish, answer, nil); err != nil {
				return err
			}
			if err := receiver.CompleteMessage(finish, m, nil); err != nil {
				return err
			}
		}
	}
}

var numerals = []struct {
	value   int
	numeral string
}{
	{1000, "M"},
	{900, "CM"},
	{500, "D"},
	{400, "CD"},
	{100, "C"},
	{90, "XC"},
	{50, "L"},
	{40, "XL"},
	{10, "X"},
	{9, "IX"},
	{5, "V"},
	{4, "IV"},
	{1, "I"},
}

func roman(number string) string {
	n, err := strconv.Atoi(strings.TrimSpace(number))
	if err != nil || n < 1 || n > 3999 {
		return "That is not a number from 1 to 3999."
	}
	var b strings.Builder
	for _, x := range numerals {
		for ; n >= x.value; n -= x.value {
			b.WriteString(x.numeral)
		}
	}
	return b.String()
}
