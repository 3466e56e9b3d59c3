package interop

import "testing"

func TestSpringJMS(t *testing.T) {
	interop(t)
	m := java(t, "spring-jms")
	onEachEngine(t, func(s *story) { m.tell(s, "STORY_URL=amqp://"+s.host) })
}
