"""The methods of SyncClient are those that are written from Client."""

from infra.sync_client import CLIENT, SYNC_CLIENT, sync_client

CLIENT_TEXT = CLIENT.read_text(encoding="utf-8")
TEXT = SYNC_CLIENT.read_text(encoding="utf-8")


def test_the_module_is_up_to_date() -> None:
    assert sync_client(CLIENT_TEXT, TEXT) == TEXT


def test_a_parameter_of_the_client_is_one_of_the_sync_client() -> None:
    changed = CLIENT_TEXT.replace(
        "async def position(self, workflow_id: str)",
        "async def position(self, workflow_id: str, *, at: int)",
    )

    found = sync_client(changed, TEXT)

    assert "def position(self, workflow_id: str, *, at: int) -> str:" in found
    assert "self._client.position(workflow_id, at=at)" in found
