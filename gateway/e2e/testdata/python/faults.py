"""What the official Python SDK makes of faults: does the steps of STORY_CASES and writes
{case: outcome} to the file STORY_REPORT."""

import concurrent.futures
import json
import os
import time

from azure.servicebus import ServiceBusClient, ServiceBusMessage


def message(body, **more):
    return ServiceBusMessage(body, message_id=body, **more)


def send(client, _wait=0):
    with client.get_queue_sender("q") as sender:
        sender.send_messages(message("one"))
    return "sent"


def token(client, _wait=0):
    with client.get_queue_sender("q") as sender:
        sender.send_messages(message("one"))
        time.sleep(2)
        sender.send_messages(message("two"))
    return "sent"


def settle(client, wait):
    send(client)
    with client.get_queue_receiver("q") as receiver:
        received = receiver.receive_messages(max_wait_time=wait)
        if not received:
            return "no message arrives"
        receiver.complete_message(received[0])
    return "completed"


def receive(client, wait):
    with client.get_queue_sender("q") as sender:
        sender.send_messages([message(body) for body in ("one", "two", "three")])
    bodies = []
    with client.get_queue_receiver("q") as receiver:
        while len(bodies) < 3:
            received = receiver.receive_messages(max_message_count=3 - len(bodies), max_wait_time=wait)
            if not received:
                break
            for m in received:
                bodies.append(str(m))
                receiver.complete_message(m)
    return ", ".join(bodies)


def renew(client, wait):
    send(client)
    with client.get_queue_receiver("q") as receiver:
        [received] = receiver.receive_messages(max_wait_time=wait)
        receiver.renew_message_lock(received)
    return "renewed"


def session(client, wait):
    with client.get_queue_sender("q") as sender:
        sender.send_messages(message("one", session_id="s"))
    with client.get_queue_receiver("q", session_id="s") as receiver:
        [received] = receiver.receive_messages(max_wait_time=wait)
        time.sleep(1)
        receiver.complete_message(received)
    return "completed"


STEPS = {"send": send, "token": token, "settle": settle, "receive": receive, "renew": renew, "session": session}


def tell(case):
    try:
        with ServiceBusClient.from_connection_string(case["connection"], retry_total=3, retry_backoff_factor=0.1, retry_mode="fixed") as client:
            return STEPS[case["step"]](client, case["receiveMS"] / 1000)
    except Exception as e:  # whatever it is, is reported
        return f"`{type(e).__name__}`"


cases = json.loads(os.environ["STORY_CASES"])
with concurrent.futures.ThreadPoolExecutor(len(cases)) as pool:
    report = dict(zip((case["name"] for case in cases), pool.map(tell, cases)))
with open(os.environ["STORY_REPORT"], "w", encoding="utf-8") as f:
    json.dump(report, f)
print("told")
