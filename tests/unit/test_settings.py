from __future__ import annotations

from dataclasses import fields

import pytest

from placet.errors import InvalidSettings
from placet.settings import Settings

GIVEN = {
    "redis_url": ("unix:///tmp/redis.sock", "unix:///tmp/redis.sock"),
    "broker_url": ("amqp://host//", "amqp://host//"),
    "namespace": ("other", "other"),
    "config": ("agents/langgraph.json", "agents/langgraph.json"),
    "queues": (" a, b ,,", "a, b ,,"),
    "concurrency": ("7", 7),
    "lease_seconds": ("2.5", 2.5),
    "max_attempts": ("1", 1),
    "segment_timeout_seconds": ("90", 90.0),
    "max_deaths": ("3", 3),
    "grace_seconds": ("0", 0.0),
    "reconcile_seconds": ("0.05", 0.05),
    "events_max": ("10", 10),
    "events_keep_seconds": ("1e3", 1000.0),
    "runs_keep_seconds": ("0", 0.0),
    "thread_ttl_seconds": ("60", 60.0),
    "max_input_bytes": ("1024", 1024),
    "max_messages": ("5", 5),
    "max_config_bytes": ("1024", 1024),
    "max_arguments_bytes": ("1024", 1024),
    "max_decision_bytes": ("1024", 1024),
    "max_event_bytes": ("1024", 1024),
    "max_result_bytes": ("1024", 1024),
    "checkpointer": ("own.savers:postgres", "own.savers:postgres"),
    "encryption_key": ("k" * 32, "k" * 32),
    "allowed_types": ("a.b:C", "a.b:C"),
    "build_id": ("2026-11-30.1", "2026-11-30.1"),
    "log_format": ("json", "json"),
    "reviewers": ("reviewers.yaml", "reviewers.yaml"),
    "routes": ("a/routes.yaml", "a/routes.yaml"),
}


def test_every_setting_is_read_from_its_variable() -> None:
    assert set(GIVEN) == {field.name for field in fields(Settings)}
    for name, (text, value) in GIVEN.items():
        settings = Settings.from_env({f"PLACET_{name.upper()}": text})
        assert getattr(settings, name) == value
        assert type(getattr(settings, name)) is type(getattr(Settings(), name))


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("PLACET_REDIS_URL", "localhost:6379"),
        ("PLACET_REDIS_URL", "http://localhost"),
        ("PLACET_NAMESPACE", "a{b}"),
        ("PLACET_NAMESPACE", "a b"),
        ("PLACET_QUEUES", " , "),
        ("PLACET_CONCURRENCY", "0"),
        ("PLACET_CONCURRENCY", "many"),
        ("PLACET_CONCURRENCY", "1.5"),
        ("PLACET_LEASE_SECONDS", "0"),
        ("PLACET_LEASE_SECONDS", "nan"),
        ("PLACET_LEASE_SECONDS", "inf"),
        ("PLACET_LEASE_SECONDS", "15s"),
        ("PLACET_MAX_ATTEMPTS", "0"),
        ("PLACET_GRACE_SECONDS", "-1"),
        ("PLACET_RECONCILE_SECONDS", "0"),
        ("PLACET_EVENTS_MAX", "0"),
        ("PLACET_EVENTS_KEEP_SECONDS", "-1"),
        ("PLACET_THREAD_TTL_SECONDS", "-1"),
        ("PLACET_ENCRYPTION_KEY", "short"),
        ("PLACET_CHECKPOINTER", "redis"),
        ("PLACET_CHECKPOINTER", "a.b:c.d"),
        ("PLACET_CHECKPOINTER", "a.b:"),
        ("PLACET_LOG_FORMAT", "xml"),
    ],
)
def test_a_bad_value_names_its_variable(variable: str, text: str) -> None:
    with pytest.raises(InvalidSettings, match=rf"^{variable}: "):
        Settings.from_env({variable: text})


def test_a_secret_is_not_repeated_in_its_error() -> None:
    with pytest.raises(InvalidSettings) as caught:
        Settings.from_env({"PLACET_ENCRYPTION_KEY": "s3cret"})
    assert "s3cret" not in str(caught.value)


def test_what_is_given_wins_over_the_environment_and_none_does_not() -> None:
    env = {"PLACET_CONCURRENCY": "7", "PLACET_NAMESPACE": "env"}
    settings = Settings.from_env(env, concurrency=3, namespace=None)
    assert (settings.concurrency, settings.namespace) == (3, "env")
    with pytest.raises(InvalidSettings, match="unknown setting 'colour'"):
        Settings.from_env({}, colour="red")


def test_defaults_follow_from_each_other() -> None:
    settings = Settings.from_env({"PLACET_QUEUES": "a, b", "PLACET_CONCURRENCY": " "})
    assert settings.broker == settings.redis_url
    assert settings.queue_names == ("a", "b")
    assert settings.concurrency == 200


@pytest.mark.parametrize(
    ("broker_url", "uses_rabbitmq"),
    [
        ("", False),
        ("redis://host/1", False),
        ("sentinel://host:26379;sentinel://other:26379", False),
        ("amqp://host//", True),
        ("amqps://user:secret@host:5671/vhost", True),
        ("pyamqp://host", True),
        ("amqp://host;amqp://other", True),
    ],
)
def test_the_brokers_url_says_which_it_is(broker_url: str, *, uses_rabbitmq: bool) -> None:
    assert Settings.from_env({"PLACET_BROKER_URL": broker_url}).uses_rabbitmq is uses_rabbitmq
