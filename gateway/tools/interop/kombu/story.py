"""A queue as a kombu application sees it, and a task of Celery, by kombu's transport azureservicebus.

The transport takes a namespace that ends in .net, and no port. So that it reaches the gateway's, the story replaces the method that makes a
connection string of it.
"""
import os
import threading

from celery import Celery
from kombu import Connection
from kombu.transport import azureservicebus


def connect(channel):
    channel._connection_string = os.environ["STORY_CONNECTION"]


azureservicebus.Channel._try_parse_connection_string = connect
url = "azureservicebus://RootManageSharedAccessKey:SAS_KEY_VALUE@localhost.net"
name = os.environ["STORY_NAME"]
options = {"wait_time_seconds": 2, "queue_name_prefix": name + "-"}

with Connection(url, transport_options=options) as connection:
    queue = connection.SimpleQueue("work")
    queue.put({"hello": "world"}, headers={"colour": "red"})
    message = queue.get(block=True, timeout=20)
    assert message.payload == {"hello": "world"}, message.payload
    assert message.headers["colour"] == "red", message.headers
    message.ack()
    queue.put("second")
    message = queue.get(block=True, timeout=20)
    assert message.payload == "second", message.payload
    message.ack()
    assert queue.qsize() == 0, queue.qsize()
    queue.close()

app = Celery("__main__", broker=url)
app.conf.update(broker_transport_options=options, worker_hijack_root_logger=False, broker_connection_retry_on_startup=False, task_ignore_result=True)
done, tries = threading.Event(), []


@app.task(bind=True, max_retries=2, default_retry_delay=0)
def add(self, a, b):
    tries.append((a, b))
    if len(tries) == 1:
        raise self.retry()
    done.set()


def judge():
    told = done.wait(60) and tries == [(2, 3), (2, 3)]
    print("told" if told else "the task was not done, tries: %s" % tries, flush=True)
    os._exit(0 if told else 1)  # the worker would go on


add.delay(2, 3)
threading.Thread(target=judge, daemon=True).start()
app.WorkController(pool="solo", concurrency=1, without_gossip=True, without_mingle=True, without_heartbeat=True).start()
