"""Moves messages from one queue to another, each in a transaction, with Apache Qpid Proton, until it is ended.

Usage: mover.py USER KEY FROM TO URL...

Whatever breaks, it begins anew over another connection, to any of the URLs.
"""

import random
import sys
import time

from proton import Message
from proton.handlers import MessagingHandler, TransactionHandler
from proton.reactor import Container

PATIENCE = 5  # seconds without progress after which it begins anew


class Mover(MessagingHandler, TransactionHandler):
    def __init__(self, url, user, key, source, target):
        super().__init__(prefetch=0, auto_accept=False)
        self.url, self.user, self.key, self.source, self.target = url, user, key, source, target
        self.moves = 0

    def on_start(self, event):
        self.container = event.container
        self.connection = self.container.connect(
            self.url, user=self.user, password=self.key, allowed_mechs="PLAIN", reconnect=False)
        self.sender = self.container.create_sender(self.connection, self.target)
        self.receiver = self.container.create_receiver(self.connection, self.source)
        self.begun = False
        self.watch()

    def on_sendable(self, event):
        # Without credit Proton would keep the message back and commit without it.
        if event.sender == self.sender and not self.begun:
            self.begun = True
            self.receiver.flow(1)

    def watch(self):
        seen = self.moves

        class Watch:
            def on_timer_task(watch, event):
                if self.moves == seen:
                    self.connection.close()
                else:
                    self.watch()

        self.container.schedule(PATIENCE, Watch())

    def on_message(self, event):
        self.message, self.delivery = event.message, event.delivery
        self.container.declare_transaction(self.connection, handler=self)

    def on_transaction_declared(self, event):
        event.transaction.accept(self.delivery)
        event.transaction.send(self.sender, Message(id=self.message.id, body=self.message.body, inferred=True))
        event.transaction.commit()

    def on_transaction_committed(self, event):
        self.moves += 1
        self.receiver.flow(1)

    def give_up(self, event):
        self.connection.close()

    on_transaction_declare_failed = on_transaction_commit_failed = give_up
    on_rejected = on_link_error = on_connection_error = give_up

    def on_transport_error(self, event):
        pass  # the container ends by itself


user, key, source, target = sys.argv[1:5]
while True:
    try:
        Container(Mover(random.choice(sys.argv[5:]), user, key, source, target)).run()
    except Exception as e:  # a connection that breaks at a bad moment
        print(e, flush=True)
    time.sleep(0.1)
