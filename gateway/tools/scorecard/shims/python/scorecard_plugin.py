"""A plugin of pytest that trusts the gateway and tells how tests come out, a
JSON object a line."""

import json
import os

import certifi
import pytest

if authority := os.environ.get("SCORECARD_CA"):
    certifi.where = lambda: authority

report = open(os.environ["SCORECARD_REPORT"], "w")


def tell(**what):
    print(json.dumps(what), file=report, flush=True)


@pytest.fixture(scope="session")
def test_proxy():
    """Nothing is recorded."""


def needs_server(item):
    marked = item.get_closest_marker("live_test_only") or item.get_closest_marker("liveTest")
    return bool(marked) or hasattr(item.function, "needs_server")


def pytest_collection_finish(session):
    if session.config.option.collectonly:
        for item in session.items:
            tell(test=item.nodeid, server=needs_server(item))


# What is known of the test that is running: the worst of its preparation, itself
# and its clearing up.
outcome = {}


def pytest_runtest_logreport(report):
    printed = report.longreprtext + "".join(f"\n--- {name}\n{text[-20000:]}" for name, text in report.sections)
    if report.failed and outcome.get("outcome") != "fail":
        outcome.update(outcome="fail", printed=printed)
    elif report.skipped and not outcome:
        why = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
        outcome.update(outcome="skip", why=why.removeprefix("Skipped: "))
    elif report.when == "call" and not outcome:
        outcome.update(outcome="pass")


def pytest_runtest_logfinish(nodeid):
    tell(test=nodeid, **outcome)
    outcome.clear()
