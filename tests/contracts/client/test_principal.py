"""The name that a client writes into approvals and other controls."""

import pytest

from answerbus.client.bus import Bus
from answerbus.control import UNPROVED


@pytest.mark.parametrize(
    ("protocol", "mechanism", "is_proved"),
    [
        ("SASL_SSL", {}, True),
        ("SASL_SSL", {"sasl_mechanism": "SCRAM-SHA-512"}, True),
        ("SASL_SSL", {"sasl_mechanism": "OAUTHBEARER"}, False),
        ("SASL_SSL", {"sasl_mechanism": "GSSAPI"}, False),
        ("SSL", {}, False),
    ],
)
def test_a_user_is_named_only_where_a_password_proves_it(
    protocol: str, mechanism: dict[str, str], *, is_proved: bool
) -> None:
    options = {"security_protocol": protocol, "sasl_plain_username": "ann", **mechanism}
    name = Bus("127.0.0.1:1", "answerbus", options).principal

    assert (name == "kafka:ann") is is_proved
    assert name.startswith(UNPROVED) is not is_proved
