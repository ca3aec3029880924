"""The fixture `fake_client` for all tests here."""

pytest_plugins = ["answerbus.client.testing.pytest_plugin"]
