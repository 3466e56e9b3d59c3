"""What a program sees of each error, told with the official Python SDK: writes
{case: {type, text}} to the file STORY_REPORT."""

import json
import os
import urllib.request

from azure.servicebus import ServiceBusClient, ServiceBusMessage

queue, connection = os.environ["STORY_QUEUE"], os.environ["STORY_CONNECTION"]


def send(connection_string, entity, body="hello"):
    with ServiceBusClient.from_connection_string(connection_string, retry_total=0) as client:
        with client.get_queue_sender(entity) as sender:
            sender.send_messages(ServiceBusMessage(body))


def settle_lost():
    with ServiceBusClient.from_connection_string(connection, retry_total=0) as client:
        with client.get_queue_sender(queue) as sender:
            sender.send_messages(ServiceBusMessage("hello"))
        with client.get_queue_receiver(queue) as receiver:
            [message] = receiver.receive_messages(max_wait_time=300)
            url = f"{os.environ['STORY_MESSAGES']}/{message.message_id}/{message.lock_token}"
            request = urllib.request.Request(url, method="PUT", headers={"Authorization": os.environ["STORY_TOKEN"]})
            urllib.request.urlopen(request).close()
            receiver.complete_message(message)


report = {}
for name, provoke in {
    "wrong key": lambda: send(os.environ["STORY_WRONG_KEY"], queue),
    "expired token": lambda: send(os.environ["STORY_EXPIRED"], queue),
    "missing entity": lambda: send(connection, "no-such-queue"),
    "missing claim": lambda: send(os.environ["STORY_LISTEN_ONLY"], queue),
    "no network": lambda: send(os.environ["STORY_NOBODY"], queue),
    "lost lock": settle_lost,
    "message too large": lambda: send(connection, queue, "x" * (300 << 10)),
    "disabled entity": lambda: send(connection, os.environ["STORY_DISABLED"]),
}.items():
    try:
        provoke()
    except Exception as e:  # whatever it is, is reported
        report[name] = {"type": type(e).__name__, "text": str(e)}
with open(os.environ["STORY_REPORT"], "w", encoding="utf-8") as f:
    json.dump(report, f)
print("told")
