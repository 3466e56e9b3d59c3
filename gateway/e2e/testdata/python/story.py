"""The Python SDK's basics, with the connection string of an emulator: management,
settlements, a received message sent on, sessions, scheduling. Any surprise is an
exception, and the last line that is printed is "told"."""

import os
from datetime import datetime, timedelta, timezone

from azure.servicebus import (
    NEXT_AVAILABLE_SESSION,
    ServiceBusClient,
    ServiceBusMessage,
    ServiceBusSubQueue,
    TransportType,
)
from azure.servicebus.exceptions import ServiceBusAuthenticationError
from azure.servicebus.management import ServiceBusAdministrationClient, SqlRuleFilter

connection = os.environ["STORY_CONNECTION"]
name = os.environ["STORY_QUEUE"]
transport = TransportType.AmqpOverWebsocket if os.environ.get("STORY_WEBSOCKET") else TransportType.Amqp


def same(got, want, what):
    if got != want:
        raise AssertionError(f"{what}: got {got!r}, want {want!r}")


def texts(messages):
    return [str(message) for message in messages]


def take(receiver, count):
    """Receives exactly so many messages."""
    got = []
    while len(got) < count:
        more = receiver.receive_messages(max_message_count=count - len(got), max_wait_time=300)
        if not more:
            raise AssertionError(f"got {texts(got)}, want {count} messages")
        got += more
    return got


def manage(admin):
    admin.create_queue(name, max_delivery_count=3, lock_duration=timedelta(minutes=1))
    same(admin.get_queue(name).max_delivery_count, 3, "max_delivery_count")
    admin.create_queue(name + "-sessions", requires_session=True)
    admin.create_topic(name + "-topic")
    admin.create_subscription(name + "-topic", "red")
    admin.delete_rule(name + "-topic", "red", "$Default")
    admin.create_rule(name + "-topic", "red", "red", filter=SqlRuleFilter("colour = 'red' AND size > 1"))


def settle(client, admin):
    with client.get_queue_sender(name) as sender:
        batch = sender.create_message_batch()
        for text in "complete", "abandon", "defer", "bury":
            batch.add_message(ServiceBusMessage(text, message_id=text, application_properties={"size": 7}))
        sender.send_messages(batch)
    with client.get_queue_receiver(name) as receiver:
        complete, abandon, defer, bury = take(receiver, 4)
        same(complete.application_properties, {b"size": 7}, "application_properties")
        receiver.renew_message_lock(complete)
        receiver.complete_message(complete)
        receiver.abandon_message(abandon)
        receiver.defer_message(defer)
        receiver.dead_letter_message(bury, reason="tired", error_description="of it all")
        [again] = take(receiver, 1)
        same((str(again), again.delivery_count), ("abandon", 1), "what was abandoned")
        receiver.complete_message(again)
        [deferred] = receiver.receive_deferred_messages([defer.sequence_number])
        receiver.complete_message(deferred)
    with client.get_queue_receiver(name, sub_queue=ServiceBusSubQueue.DEAD_LETTER) as receiver:
        [dead] = take(receiver, 1)
        same((str(dead), dead.dead_letter_reason, dead.dead_letter_error_description), ("bury", "tired", "of it all"), "the dead letter")
        with client.get_queue_sender(name) as sender:
            sender.send_messages(dead)  # as it is
        receiver.complete_message(dead)
    with client.get_queue_receiver(name) as receiver:
        [revived] = take(receiver, 1)
        same((str(revived), revived.message_id), ("bury", "bury"), "what was sent on")
        receiver.complete_message(revived)
        same(receiver.peek_messages(), [], "what is left")
    same(admin.get_queue_runtime_properties(name).total_message_count, 0, "total_message_count")


def hold(client):
    with client.get_queue_sender(name + "-sessions") as sender:
        sender.send_messages([ServiceBusMessage(str(n), session_id=f"s{n % 2}") for n in range(4)])
    with client.get_queue_receiver(name + "-sessions", session_id="s1") as receiver:
        receiver.session.set_state(b"half")
        receiver.session.renew_lock()
        got = take(receiver, 2)
        same(texts(got), ["1", "3"], "the session's messages")
        for message in got:
            receiver.complete_message(message)
        same(receiver.session.get_state(), b"half", "the session's state")
    with client.get_queue_receiver(name + "-sessions", session_id=NEXT_AVAILABLE_SESSION) as receiver:
        same(receiver.session.session_id, "s0", "the next session")
        for message in take(receiver, 2):
            receiver.complete_message(message)


def publish(client):
    with client.get_topic_sender(name + "-topic") as sender:
        for size in 1, 2:
            sender.send_messages(ServiceBusMessage(f"red {size}", application_properties={"colour": "red", "size": size}))
    with client.get_subscription_receiver(name + "-topic", "red") as receiver:
        [message] = take(receiver, 1)
        same(str(message), "red 2", "what matches")
        receiver.complete_message(message)


def schedule(client):
    with client.get_queue_sender(name) as sender:
        later = datetime.now(timezone.utc) + timedelta(hours=1)
        [number] = sender.schedule_messages(ServiceBusMessage("later"), later)
        sender.cancel_scheduled_messages(number)
        sender.schedule_messages(ServiceBusMessage("soon"), datetime.now(timezone.utc) + timedelta(seconds=1))
    with client.get_queue_receiver(name) as receiver:
        [message] = take(receiver, 1)
        same(str(message), "soon", "what was scheduled")
        receiver.complete_message(message)


def miss(client):
    try:
        with client.get_queue_sender(name + "-missing") as sender:
            sender.send_messages(ServiceBusMessage("lost"))
    except ServiceBusAuthenticationError:  # as the SDK's own test has it: there is no token for what is missing
        return
    raise AssertionError("a queue that is missing was found")


with ServiceBusAdministrationClient.from_connection_string(connection) as admin:
    manage(admin)
    with ServiceBusClient.from_connection_string(connection, transport_type=transport, retry_total=0) as client:
        settle(client, admin)
        hold(client)
        publish(client)
        schedule(client)
        miss(client)
    admin.delete_queue(name)
    admin.delete_queue(name + "-sessions")
    admin.delete_topic(name + "-topic")
print("told")
