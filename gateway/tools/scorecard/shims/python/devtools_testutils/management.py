"""Stands for Azure's resource manager: the calls that preparers make, done by
the management API of the gateway."""

import os
import types

from azure.core.exceptions import ResourceNotFoundError
from azure.servicebus.management import (
    AccessRights,
    AuthorizationRule,
    ServiceBusAdministrationClient,
)

HOST = os.environ["SCORECARD_HOST"]
POLICY, KEY = os.environ["SCORECARD_POLICY"], os.environ["SCORECARD_KEY"]
OTHER_KEY = os.environ["SCORECARD_OTHER_KEY"]


def connection_string(policy=POLICY, key=KEY, entity=None):
    text = f"Endpoint=sb://{HOST}/;SharedAccessKeyName={policy};SharedAccessKey={key}"
    return f"{text};EntityPath={entity}" if entity else text


def keys(policy, key, entity=None):
    return types.SimpleNamespace(
        key_name=policy, primary_key=key, primary_connection_string=connection_string(policy, key, entity)
    )


def settings(model):
    """What a description of the resource manager asks for."""
    names = (
        "lock_duration",
        "requires_session",
        "requires_duplicate_detection",
        "dead_lettering_on_message_expiration",
        "enable_partitioning",
    )
    found = {name: getattr(model, name, None) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def rights_of(model):
    return {str(getattr(right, "value", right)).lower() for right in model.rights}


class Client:
    def __init__(self):
        self.namespaces, self.queues = Namespaces(), Queues()
        self.topics, self.subscriptions = Topics(), Subscriptions()


class Entities:
    @property
    def admin(self):
        return ServiceBusAdministrationClient.from_connection_string(connection_string())

    def remove(self, delete, *names):
        try:
            delete(*names)
        except ResourceNotFoundError:
            pass  # the test did


class Namespaces(Entities):
    def begin_create_or_update(self, *_):
        return types.SimpleNamespace(result=lambda: types.SimpleNamespace(name=os.environ["SCORECARD_NAMESPACE"]))

    def delete(self, *_):
        pass

    # The gateway was started with a policy for each set of rights.
    policies = {}

    def create_or_update_authorization_rule(self, group, namespace, name, rule):
        rights = rights_of(rule)
        if "manage" in rights:
            self.policies[name] = keys(POLICY, KEY)
        elif rights == {"send"}:
            self.policies[name] = keys("SendOnly", OTHER_KEY)
        elif rights == {"listen"}:
            self.policies[name] = keys("ListenOnly", OTHER_KEY)
        else:
            self.policies[name] = keys("NoManage", OTHER_KEY)
        return types.SimpleNamespace(name=name)

    def list_keys(self, group, namespace, name):
        return self.policies.get(name) or keys(POLICY, KEY)

    def delete_authorization_rule(self, *_):
        pass


class Queues(Entities):
    def create_or_update(self, group, namespace, name, model):
        return self.admin.create_queue(name, **settings(model))

    def delete(self, group, namespace, name):
        self.remove(self.admin.delete_queue, name)

    def create_or_update_authorization_rule(self, group, namespace, queue, name, rule):
        admin = self.admin
        found = admin.get_queue(queue)
        found.authorization_rules = [
            AuthorizationRule(
                claim_type="SharedAccessKey",
                claim_value="None",
                rights=[right for right in AccessRights if right.value.lower() in rights_of(rule)],
                key_name=name,
                primary_key=OTHER_KEY,
                secondary_key=OTHER_KEY,
            )
        ]
        admin.update_queue(found)
        return types.SimpleNamespace(name=name)

    def list_keys(self, group, namespace, queue, name):
        return keys(name, OTHER_KEY, queue)

    def delete_authorization_rule(self, *_):
        pass  # it goes with its queue


class Topics(Entities):
    def create_or_update(self, group, namespace, name, model):
        return self.admin.create_topic(name)

    def delete(self, group, namespace, name):
        self.remove(self.admin.delete_topic, name)


class Subscriptions(Entities):
    def create_or_update(self, group, namespace, topic, name, model):
        return self.admin.create_subscription(topic, name, **settings(model))

    def delete(self, group, namespace, topic, name):
        self.remove(self.admin.delete_subscription, topic, name)
