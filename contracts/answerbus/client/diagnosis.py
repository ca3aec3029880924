"""Explains the errors of Kafka's clients: what is wrong, and which option changes it."""

from dataclasses import dataclass

from aiokafka.errors import (
    BrokerResponseError,
    ClusterAuthorizationFailedError,
    CommitFailedError,
    GroupAuthorizationFailedError,
    InvalidSessionTimeoutError,
    InvalidTransactionTimeout,
    KafkaError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    NodeNotReadyError,
    ProducerFenced,
    RequestTimedOutError,
    StaleMetadata,
    TopicAuthorizationFailedError,
    TransactionalIdAuthorizationFailed,
    UnknownTopicOrPartitionError,
)


@dataclass(frozen=True, slots=True)
class OptionNames:
    """The names of a connection's options where they are set."""

    servers: str = "`bootstrap_servers`"
    protocol: str = "`security_protocol`"
    mechanism: str = "`sasl_mechanism`"
    user: str = "`sasl_plain_username`"
    password: str = "`sasl_plain_password`"  # noqa: S105 - the name of the option
    token: str = "`sasl_oauth_token_provider`"  # noqa: S105 - the name of the option
    authority: str = "the authority in `ssl_context`"
    certificate: str = "the certificate and key in `ssl_context`"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """Why Kafka does not do what it is asked, and what to change."""

    cause: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.cause}: {self.remedy}"


def diagnosis_of(error: BaseException) -> Diagnosis | None:
    """The operation that Kafka refuses for a missing right; None for all other errors."""
    match error:
        case GroupAuthorizationFailedError():
            return _right("consumer group", error, "Read on the group (Describe, to look at it)")
        case TopicAuthorizationFailedError():
            return _right(
                "topic", error, "Describe on the topic, and Read or Write as docs/rights.md lists"
            )
        case TransactionalIdAuthorizationFailed():
            return _right("transactional id", error, "Write and Describe on the id")
        case ClusterAuthorizationFailedError():
            return _right("cluster", error, "Describe on the cluster")
        case _:
            return None


def describe_error(error: BaseException) -> str:
    """An error for people; never empty, also where the error itself has no words."""
    refusal = diagnosis_of(error)
    if refusal:
        return str(refusal)
    name = type(error).__name__
    if isinstance(error, BrokerResponseError) and not error.args:
        return f"{name}: {_MEANINGS.get(type(error)) or error.description or error.message}"
    message = _text(error)
    if message and not was_fenced(error):  # aiokafka's own text of that advises what is no remedy
        return f"{name}: {message}"
    for kind, meaning in _MEANINGS.items():
        if isinstance(error, kind):
            return f"{name}: {meaning}"
    cause = error.__cause__
    return f"{name}: after {describe_error(cause)}" if cause else f"{name}: the error has no text"


def describe_error_for_log(error: BaseException) -> str:
    """The same where no content may be shown: errors that are not Kafka's may quote it."""
    return (
        describe_error(error) if isinstance(error, KafkaError | OSError) else type(error).__name__
    )


def was_fenced(error: BaseException) -> bool:
    """Whether a producer can write no more because another has the same transactional id."""
    return isinstance(error, ProducerFenced)


LIMITS_OF_BROKERS: dict[type[BaseException], str] = {
    InvalidSessionTimeoutError: (
        "the brokers allow no such `session_timeout_ms`: set it between their "
        "group.min.session.timeout.ms and group.max.session.timeout.ms"
    ),
    InvalidTransactionTimeout: (
        "the brokers' transaction.max.timeout.ms is less than transactions may take: set it to "
        "15000 or more"
    ),
}
_MEANINGS: dict[type[BaseException], str] = {
    **LIMITS_OF_BROKERS,
    ProducerFenced: "another producer has taken over the transactional id",
    CommitFailedError: "the consumer group has given the partition to another member",
    MessageSizeTooLargeError: (
        "a topic takes smaller records than this: `answerbus doctor` compares max.message.bytes"
    ),
    UnknownTopicOrPartitionError: "there is no such topic or partition, or no right to see it",
    StaleMetadata: "there is no such topic or partition, or no right to see it",
    KafkaTimeoutError: "Kafka has not answered in time",
    RequestTimedOutError: "Kafka has not answered in time",
    NodeNotReadyError: "the broker cannot be reached",
    TimeoutError: "no answer in time",
    ConnectionRefusedError: "nothing listens there",
    ConnectionResetError: "the other side has closed the connection",
    EOFError: "the other side has closed the connection",
    KafkaError: "Kafka gives no reason",
    MemoryError: "there is not enough memory",
    AssertionError: "a state that must not be: a bug, or a producer used after its end",
}


def _text(error: BaseException) -> str:
    """Its own text; aiokafka puts the error's name before it, and a number before that."""
    message = ", ".join(map(str, error.args)) if isinstance(error, KafkaError) else str(error)
    return message.strip()


def _right(what: str, error: BaseException, needed: str) -> Diagnosis:
    which = ", ".join(_names(error))
    return Diagnosis(
        f"no right to the {what}{f' {which}' if which else ''} ({type(error).__name__})",
        f"grant the user {needed}",
    )


def _names(error: BaseException) -> list[str]:
    """The subject of an error: aiokafka gives a name, or a set of names."""
    found: list[str] = []
    for detail in error.args:
        several = detail if isinstance(detail, (set, frozenset)) else [detail]
        found += sorted(str(getattr(one, "topic", one)) for one in several)
    return found
