"""Stands for the package of this name in the SDK's repository, which is not
published: as much of it as the tests of azure-servicebus use, with a gateway in
the place of Azure. Nothing is recorded or played back."""

import asyncio
import contextlib
import functools
import inspect
import os
import uuid

from . import management

HOST = os.environ["SCORECARD_HOST"]


class AzureTestError(Exception):
    pass


class ReservedResourceNameError(Exception):
    pass


class FakeResource:
    def __init__(self, name, id):
        self.name, self.id = name, id


class AzureRecordedTestCase:
    is_live = True

    @staticmethod
    def await_prepared_test(test):
        @functools.wraps(test)
        def run(*args, **kwargs):
            return asyncio.run(test(*args, **kwargs))

        return run


class AzureMgmtRecordedTestCase(AzureRecordedTestCase):
    pass


def get_credential(is_async=False, **_):
    if is_async:
        from azure.identity.aio import ManagedIdentityCredential
    else:
        from azure.identity import ManagedIdentityCredential
    return ManagedIdentityCredential()


def get_region_override(default="westus"):
    return default


def recorded_by_proxy(test):
    return test


def nothing(*_, **__):
    pass


add_general_regex_sanitizer = set_custom_default_matcher = nothing


def prepared(test, prepare, supplied=()):
    """Wraps a test so that prepare gives it arguments. To pytest the wrapper has
    those of the test's parameters that are still to be given."""

    parameters = inspect.signature(test).parameters
    # Another preparer takes all arguments, to hand them on.
    picky = not hasattr(test, "needs_server") and not any(p.kind is p.VAR_KEYWORD for p in parameters.values())

    @functools.wraps(test)
    def run(case, *args, **kwargs):
        with prepare(case, kwargs) as more:
            kwargs.update(more)
            if picky:
                kwargs = {name: value for name, value in kwargs.items() if name in parameters}
            outcome = test(case, *args, **kwargs)
            if inspect.iscoroutine(outcome):
                asyncio.run(outcome)

    rest = [
        p
        for p in parameters.values()
        if p.name not in supplied and p.default is p.empty and p.kind is not p.VAR_KEYWORD
    ]
    run.__signature__ = inspect.Signature(rest)
    run.needs_server = True
    return run


class PowerShellPreparer:
    """Gives a test what a script would have made: names and keys."""

    values = {
        "servicebus_fully_qualified_namespace": HOST,
        "servicebus_connection_str": management.connection_string(),
        "servicebus_sas_policy": management.POLICY,
        "servicebus_sas_key": management.KEY,
    }

    def __init__(self, _, **stand_ins):
        self.arguments = stand_ins | {name: value for name, value in self.values.items() if name in stand_ins}

    def __call__(self, test):
        return prepared(test, lambda *_: contextlib.nullcontext(self.arguments), self.arguments)


class AzureMgmtPreparer:
    """Gives a test a resource that a subclass makes, a new one or the one that an
    earlier test with the same demands left."""

    made = {}

    def __init__(self, name_prefix="", random_name_length=24, random_name_enabled=True, **_):
        self.name_prefix, self.random_name_length = name_prefix, random_name_length
        self.random_name_enabled = random_name_enabled
        self.resource = self.client = self.key = self.test_class_instance = None
        self.resource_random_name = None
        self.is_live = True
        self.resource_moniker = name_prefix

    @property
    def moniker(self):
        return self.resource_moniker

    def set_cache(self, enabled, *demands):
        self.key = (type(self).__name__, self.name_prefix, *map(str, demands)) if enabled else None

    def create_mgmt_client(self, *_, **__):
        return management.Client()

    def _name(self):
        if self.resource_random_name:
            return self.resource_random_name
        return self.name_prefix + uuid.uuid4().hex[: self.random_name_length - len(self.name_prefix)]

    def __call__(self, test):
        @contextlib.contextmanager
        def prepare(case, given):
            self.test_class_instance = case
            # A resource of another parent is another one.
            key = self.key and (*self.key, *(getattr(v, "name", "") for _, v in sorted(given.items())))
            if key and key in self.made:
                yield self.made[key]
                return
            self.resource = None
            name = self._name()
            more = self.create_resource(name, **given)
            if key:
                self.made[key] = more
            try:
                yield more
            finally:
                if not key:
                    self.remove_resource(name, **given)

        return prepared(test, prepare)


class RandomNameResourceGroupPreparer(AzureMgmtPreparer):
    def create_resource(self, name, **_):
        return {"resource_group": FakeResource(name, name)}

    def remove_resource(self, name, **_):
        pass


CachedResourceGroupPreparer = RandomNameResourceGroupPreparer
