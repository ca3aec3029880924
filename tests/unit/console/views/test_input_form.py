"""Forms of questions to people: what is filled in is read at a bounded cost."""

from answerbus.limits import TOOL_RESULT_VALUES_MAX
from services.console.views.input_form import fields_of, value_of
from tests.cpu_time import cpu_time

FIELDS = 26


def test_the_fields_of_a_form_have_as_many_values_together_as_an_answer_may_have() -> None:
    fields = fields_of({"properties": {f"m{number}": {} for number in range(FIELDS)}})
    each = TOOL_RESULT_VALUES_MAX // FIELDS
    some = {field.name: f"[{','.join(['0'] * (each - 2))}]" for field in fields}
    many = {name: f"[{text},{text}]" for name, text in some.items()}

    answer, problems = value_of(fields, some)
    assert isinstance(answer, dict)
    assert len(answer) == FIELDS
    assert problems == ()
    assert [one.code for one in value_of(fields, many)[1]] == ["too_large"]


def test_a_form_of_a_mebibyte_holds_no_event_loop() -> None:
    fields = fields_of({"properties": {f"m{number}": {} for number in range(FIELDS)}})
    text = f"[{','.join(['[]'] * 13_000)}]"
    with cpu_time() as took:
        value_of(fields, {field.name: text for field in fields})

    assert took.is_below(0.02)
