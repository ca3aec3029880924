"""What a result says of the rules that its provider did not enforce."""

from answerbus.limits import NOTE_BYTES_MAX, NOTES_MAX
from services.worker.dialects.compiler.shapes.notes import Notes


def test_a_rule_that_many_parts_have_is_one_note() -> None:
    notes = Notes()
    for name in "abcd":
        notes.not_enforced("minLength", f"/properties/{name}")

    (note,) = notes.texts()

    assert note == (
        "`minLength` is not enforced by this provider; checked after "
        "(at /properties/a and /properties/b, and 2 more)"
    )


def test_notes_are_bounded() -> None:
    notes = Notes()
    for number in range(40):
        notes.as_text(f"/{'n' * 2 * NOTE_BYTES_MAX}{number}")

    assert len(notes.texts()) == NOTES_MAX
    assert notes.texts()[-1] == "9 more parts are not enforced; checked after"
    assert all(len(note.encode()) <= NOTE_BYTES_MAX for note in notes.texts())
