"""What a waiting command says while Kafka is away."""

from services.commands.kafka_away import AWAY_AFTER_S, KafkaAway


def test_kafka_is_reported_away_once_and_back_once() -> None:
    said: list[str] = []
    away = KafkaAway("kafka:9092", said.append)

    away.look(is_connected=False, now=0)
    away.look(is_connected=True, now=AWAY_AFTER_S - 1)
    away.look(is_connected=False, now=AWAY_AFTER_S)
    away.look(is_connected=False, now=2 * AWAY_AFTER_S - 1)
    assert said == []  # connections are made again in between

    for now in (2 * AWAY_AFTER_S, 3 * AWAY_AFTER_S):
        away.look(is_connected=False, now=now)
    (line,) = said
    assert line == "No connection to Kafka at kafka:9092: this goes on once it is back."

    for now in (4 * AWAY_AFTER_S, 5 * AWAY_AFTER_S):
        away.look(is_connected=True, now=now)
    assert said[1:] == ["Kafka at kafka:9092 answers again."]
