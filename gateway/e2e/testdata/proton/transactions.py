"""Transactions as Apache Qpid Proton does them, an AMQP 1.0 client that knows nothing of this gateway.

Usage: transactions.py URL USER KEY WORK OUT

Sends three messages to WORK in a transaction that commits, and two in one that aborts. Then it receives two of the
three: the first is accepted in a transaction that also sends to OUT and commits, the second in one that aborts.
Proton releases what it had accepted there, so the second comes again, before the third, and is accepted in a transaction
that commits. Prints what happened, a line each.
"""

import sys

from proton import Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container


class Story(MessagingHandler, TransactionHandler):
    def __init__(self, url, user, key, work, out):
        super().__init__(prefetch=0, auto_accept=False)
        self.url, self.user, self.key, self.work, self.out = url, user, key, work, out
        self.chapters = [self.send_three, self.send_two, self.receive_first, self.receive_second, self.receive_again]

    def on_start(self, event):
        self.container = event.container
        self.connection = self.container.connect(
            self.url, user=self.user, password=self.key, allowed_mechs="PLAIN", reconnect=False)
        self.to_work = self.container.create_sender(self.connection, self.work)
        self.to_out = self.container.create_sender(self.connection, self.out)
        self.from_work = self.container.create_receiver(self.connection, self.work)
        self.open_links = 3

    def on_link_opened(self, event):
        if self.open_links:
            self.open_links -= 1
            if not self.open_links:
                self.turn()

    def turn(self):
        """Begins the next chapter, each a transaction."""
        if not self.chapters:
            print("told", flush=True)
            self.connection.close()
            return
        self.chapter = self.chapters.pop(0)
        self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event):
        self.transaction = event.transaction
        self.chapter()

    def send_three(self):
        for body in ("one", "two", "three"):
            self.transaction.send(self.to_work, Message(id=body, body=body))
        self.transaction.commit()

    def send_two(self):
        for body in ("four", "five"):
            self.transaction.send(self.to_work, Message(id=body, body=body))
        self.transaction.abort()

    def receive_first(self):
        self.from_work.flow(1)

    receive_second = receive_again = receive_first

    def on_message(self, event):
        print("received", event.message.body, flush=True)
        self.transaction.accept(event.delivery)
        if event.message.body == "one":
            self.transaction.send(self.to_out, Message(id="answer", body="answer to one"))
            self.transaction.commit()
        elif self.chapters:
            self.transaction.abort()
        else:
            self.transaction.commit()

    def on_transaction_committed(self, event):
        print("committed", flush=True)
        self.turn()

    def on_transaction_aborted(self, event):
        print("aborted", flush=True)
        self.turn()

    def on_transaction_declare_failed(self, event):
        self.fail("declare failed")

    def on_transaction_commit_failed(self, event):
        self.fail("commit failed")

    def on_rejected(self, event):
        self.fail("rejected: %s" % event.delivery.remote.condition)

    def on_link_error(self, event):
        self.fail("link: %s" % event.link.remote_condition)

    def on_transport_error(self, event):
        self.fail("transport: %s" % event.transport.condition)

    def fail(self, why):
        print(why, flush=True)
        self.connection.close()


Container(Story(*sys.argv[1:])).run()
