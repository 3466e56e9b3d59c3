"""An order workflow against a Crosstown of the test's own.

Run it with pytest, or: python -m unittest test_orders. CROSSTOWN is the program, "crosstown" by default.
"""

import datetime
import json
import os
import pathlib
import subprocess
import unittest
import urllib.request

from azure.servicebus import ServiceBusClient, ServiceBusMessage, ServiceBusSubQueue

ENTITIES = pathlib.Path(__file__).parent.parent / "orders.yaml"


class Orders(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        program = os.environ.get("CROSSTOWN", "crosstown")
        cls.server = subprocess.Popen([program, "test-server", "--config", str(ENTITIES)],
                                      stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        cls.addClassCleanup(cls.server.communicate)  # which closes its standard input: then it ends
        line = cls.server.stdout.readline()
        if not line:
            raise RuntimeError(f"{program} test-server has ended with code {cls.server.wait()}: standard error says why")
        cls.bus = json.loads(line)
        cls.client = cls.enterClassContext(ServiceBusClient.from_connection_string(cls.bus["connectionString"]))

    def clock(self, **move):
        """Move the broker's time, and return it: see docs/testing.md."""
        request = urllib.request.Request(self.bus["url"] + "/$crosstown/clock", json.dumps(move).encode() if move else None,
                                         {"Authorization": self.bus["authorization"]}, method="PUT" if move else "GET")
        with urllib.request.urlopen(request) as answer:
            return datetime.datetime.fromisoformat(json.load(answer)["now"])

    def test_an_order_that_fails_is_tried_twice(self):
        with self.client.get_queue_sender("orders") as sender:
            sender.send_messages(ServiceBusMessage("tea"))
        with self.client.get_queue_receiver("orders", max_wait_time=5) as receiver:
            for _ in range(2):
                receiver.abandon_message(receiver.receive_messages()[0])
        with self.client.get_queue_receiver("orders", sub_queue=ServiceBusSubQueue.DEAD_LETTER, max_wait_time=5) as dead:
            (order,) = dead.receive_messages()
            self.assertEqual("MaxDeliveryCountExceeded", order.dead_letter_reason)
            dead.complete_message(order)

    def test_a_reminder_comes_when_it_is_due(self):
        due = self.clock() + datetime.timedelta(days=14)
        with self.client.get_queue_sender("reminders") as sender:
            sender.schedule_messages(ServiceBusMessage("pay"), due)
        self.clock(advance="P14D")
        with self.client.get_queue_receiver("reminders", max_wait_time=5) as receiver:
            (reminder,) = receiver.receive_messages()
            self.assertGreaterEqual(reminder.enqueued_time_utc, due.replace(microsecond=due.microsecond // 1000 * 1000))
            receiver.complete_message(reminder)


if __name__ == "__main__":
    unittest.main()
