"""Files that people give to commands."""

from codecs import BOM_UTF8
from pathlib import Path

from services.command_line import content_of
from services.commands.replay.options import edits_from


def test_a_byte_order_mark_of_an_editor_is_not_of_the_content(tmp_path: Path) -> None:
    file = tmp_path / "edit.json"
    patch = b'[{"op":"replace","path":"/ttl_s","value":7200}]'
    file.write_bytes(BOM_UTF8 + patch)

    assert content_of(file) == patch
    assert edits_from(str(file)) == edits_from(patch.decode())
