"""Forged packs: each is found and named, also where the forger has the key and signs again."""

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from answerbus.account_id import belongs, replay_account
from answerbus.evidence.anchored_heads import is_account_of
from answerbus.evidence.pack_file import LINE_BYTES_MAX, UNSIGNED_BYTES_MAX
from answerbus.evidence.verifier import FINDINGS_MAX, EvidenceReport, verify
from services.operators.audit.evidence import line_of
from tests.contracts.evidence.packs import (
    DEFINITION,
    KEY,
    OTHER_KEY,
    WORKFLOW,
    Files,
    Record,
    anchored,
    attempts,
    changed,
    files_of,
    lines,
    public,
    record,
    signed,
    signed_manifest,
    steps,
    whole,
    written,
)

pytestmark = pytest.mark.wide

KEYS = [public()]


def kinds(report: EvidenceReport) -> set[str]:
    return {one.kind for one in report.findings}


def checked(path: Path, members: dict[str, bytes], *anchors: Path) -> EvidenceReport:
    return verify(written(path / "pack.zip", members), KEYS, anchors)


def test_a_whole_pack_is_whole(tmp_path: Path) -> None:
    anchor = anchored(tmp_path / "anchor.jsonl", attempts())
    report = checked(tmp_path, signed(whole()), anchor)

    assert report.findings == []
    assert report.lines == {
        "attempts": 6,
        "steps": 4,
        "outcomes": 1,
        "definitions": 1,
        "schemas": 1,
        "heads": 2,
    }


def test_questions_to_people_are_in_no_chain(tmp_path: Path) -> None:
    files = whole()
    for kind in ("approval_requested", "input_requested", "control_applied", "of_a_later_version"):
        files["steps"].insert(1, line_of({"kind": kind, "workflow_id": "w-0"}))

    assert kinds(checked(tmp_path, signed(files))) == set()
    files["steps"].insert(1, line_of({"kind": "control_applied", "workflow_id": "w-1"}))
    assert kinds(checked(tmp_path, signed(files))) == {"foreign_workflow"}


def reordered(files: Files) -> None:
    found = files["attempts"]
    found[2], found[3] = found[3], found[2]


def without_the_middle(files: Files) -> None:
    del files["attempts"][2]


def without_the_tail(files: Files) -> None:
    del files["attempts"][-1]


def without_the_beginning(files: Files) -> None:
    """The heads are those of what is left."""
    files.update(files_of(attempts=attempts()[2:], steps=steps()))


def without_the_beginning_of_a_run(files: Files) -> None:
    files.update(files_of(attempts=attempts(), steps=steps()[1:]))


def with_a_step_in_no_chain(files: Files) -> None:
    files["steps"][1] = changed(files["steps"][1], lambda body: body.pop("hash"))


def twice(files: Files) -> None:
    files["attempts"].insert(3, files["attempts"][2])


def with_a_changed_field(files: Files) -> None:
    files["attempts"][2] = changed(files["attempts"][2], lambda body: body.update(cost=0))


def with_a_changed_text(files: Files) -> None:
    files["attempts"][2] = changed(files["attempts"][2], lambda body: body.update(said="u"))


def with_another_head(files: Files) -> None:
    cheaper = changed(files["attempts"][-1], lambda body: body.update(cost=0), rehash=True)
    files["attempts"][-1] = cheaper


def forked(files: Files) -> None:
    """Two workers went on from the same record: one of them had been cut off."""
    second = json.loads(files["attempts"][2])["hash"]
    fields = {"kind": "attempt", "account_id": "w-0", "request_id": "r-2"}
    files["attempts"].insert(4, lines([record(second, started_at="", **fields)])[0])


def of_another_workflow(files: Files) -> None:
    for name in ("attempts", "steps"):
        files[name] = [
            changed(line, lambda body: body.update(workflow_id="w-1")) for line in files[name]
        ]


def with_another_definition(files: Files) -> None:
    line = json.loads(files["definitions"][0])
    line["text"] = DEFINITION.replace("support", "refunds")
    files["definitions"] = [json.dumps(line).encode() + b"\n"]


def without_a_definition(files: Files) -> None:
    files["definitions"] = []


def with_another_schema(files: Files) -> None:
    files["schemas"] = [files["schemas"][0].replace(b"string", b"number")]


def without_a_chain(files: Files) -> None:
    files["steps"] = []


def without_a_head(files: Files) -> None:
    del files["heads"][0]


def with_a_head_twice(files: Files) -> None:
    files["heads"].append(files["heads"][0])


def begun_twice(files: Files) -> None:
    files["attempts"].insert(3, lines(attempts(1))[0].replace(b'"n":1', b'"n":1'))
    again = changed(files["attempts"][3], lambda body: body.update(n=9), rehash=True)
    files["attempts"][3] = again


SIGNED_AGAIN: list[tuple[Callable[[Files], None], str]] = [
    (reordered, "reordered_record"),
    (without_the_middle, "dropped_record"),
    (without_the_beginning, "dropped_record"),
    (without_the_beginning_of_a_run, "dropped_record"),
    (with_a_step_in_no_chain, "dropped_record"),
    (without_the_tail, "dropped_tail"),
    (twice, "duplicated_record"),
    (with_a_changed_field, "changed_record"),
    (with_a_changed_text, "changed_record"),
    (with_another_head, "replaced_head"),
    (forked, "fork"),
    (of_another_workflow, "foreign_workflow"),
    (with_another_definition, "definition_replaced"),
    (without_a_definition, "definition_missing"),
    (with_another_schema, "schema_replaced"),
    (without_a_chain, "dropped_chain"),
    (without_a_head, "replaced_head"),
    (with_a_head_twice, "replaced_head"),
    (begun_twice, "fork"),
]


@pytest.mark.parametrize(
    ("forge", "kind"), SIGNED_AGAIN, ids=[one.__name__ for one, _ in SIGNED_AGAIN]
)
def test_a_forgery_is_named_though_it_was_signed_again(
    forge: Callable[[Files], None], kind: str, tmp_path: Path
) -> None:
    files = whole()
    forge(files)

    report = checked(tmp_path, signed(files))

    assert kind in kinds(report), report.findings
    assert "changed_file" not in kinds(report)


@pytest.mark.parametrize(
    ("forge", "kind"), SIGNED_AGAIN, ids=[one.__name__ for one, _ in SIGNED_AGAIN]
)
def test_without_the_key_the_file_is_named_too(
    forge: Callable[[Files], None], kind: str, tmp_path: Path
) -> None:
    files, members = whole(), signed(whole())
    forge(files)
    members |= {f"{name}.jsonl": b"".join(lines) for name, lines in files.items()}

    report = checked(tmp_path, members)

    assert "changed_file" in kinds(report), (kind, report.findings)


def test_a_tail_that_was_cut_before_the_export_is_found_by_an_anchor(tmp_path: Path) -> None:
    files = files_of(attempts=attempts()[:-1], steps=steps())
    anchor = anchored(tmp_path / "anchor.jsonl", attempts())

    assert kinds(checked(tmp_path, signed(files))) == set()
    assert kinds(checked(tmp_path, signed(files), anchor)) == {"dropped_tail"}


def test_a_chain_that_was_written_again_is_found_by_an_anchor(tmp_path: Path) -> None:
    other: list[Record] = []
    for one in attempts():
        previous = other[-1]["hash"] if other else None
        fields = {k: v for k, v in one.items() if k not in {"hash", "previous", "workflow_id"}}
        other.append(record(previous, **{**fields, "cost": 0}))
    anchor = anchored(tmp_path / "anchor.jsonl", attempts())
    report = checked(tmp_path, signed(files_of(attempts=other, steps=steps())), anchor)

    assert kinds(report) == {"dropped_tail"}


def test_the_account_of_a_replay_that_was_left_out_is_found_by_an_anchor(tmp_path: Path) -> None:
    replayed = attempts(2, replay_account(WORKFLOW, "r-1.dead-letter"))
    anchor = anchored(tmp_path / "anchor.jsonl", replayed)
    files = files_of(attempts=[*attempts(), *replayed], steps=steps())

    assert kinds(checked(tmp_path, signed(files), anchor)) == set()
    assert kinds(checked(tmp_path, signed(whole()), anchor)) == {"dropped_tail"}


WORKFLOWS = ("w", "w~", "w~0123456789ab", "w~0123456789aB", "w~\n", "~")
ENDS = ("~", "~~", "~0123456789ab", "~~0123456789ab", "~0123456789a", "~0123456789ab\n", "~xyz")


@pytest.mark.parametrize("workflow_id", WORKFLOWS)
def test_accounts_of_a_workflow_are_those_that_workers_know(workflow_id: str) -> None:
    names = [workflow_id, "w", "", "x", *(f"{workflow_id}{end}" for end in ENDS)]

    for name in names:
        assert is_account_of(name, workflow_id) == belongs(name, workflow_id), name


def test_an_anchor_says_nothing_of_an_older_pack_and_of_what_retention_has_deleted(
    tmp_path: Path,
) -> None:
    later = anchored(tmp_path / "later.jsonl", attempts(9), at="2026-11-26T10:00:00.001Z")
    report = checked(tmp_path, signed(whole()), later)
    assert (report.findings, report.later_anchors) == ([], 1)

    def found(head: int, at: str) -> set[str]:
        """With a pack whose first record is the fourth: retention has deleted three of them."""
        anchor = anchored(tmp_path / "anchor.jsonl", attempts(head), at=at)
        files = files_of(attempts=attempts()[3:-1], steps=steps())
        members = signed(files, reaches="2026-11-23T12:00:00.000Z")
        return kinds(checked(tmp_path, members, anchor))

    assert found(2, "2026-11-22T12:00:00.000Z") == set()
    assert found(3, "2026-11-23T13:00:00.000Z") == set()
    assert found(4, "2026-11-24T13:00:00.000Z") == set()
    assert found(6, "2026-11-26T09:00:00.000Z") == {"dropped_tail"}


def test_a_chain_that_was_dropped_as_a_whole_is_found_though_retention_has_deleted_others(
    tmp_path: Path,
) -> None:
    other = attempts(2, replay_account(WORKFLOW, "r-1.dead-letter"))

    def found(*anchors_before: str) -> set[str]:
        """With an anchor that has the other account, and so many that do not."""
        places = [
            anchored(tmp_path / f"{at}.jsonl".replace(":", ""), attempts(5), at=at)
            for at in anchors_before
        ]
        last = anchored(tmp_path / "last.jsonl", other, at="2026-11-26T09:00:00.000Z")
        members = signed(whole(), reaches="2026-11-23T12:00:00.000Z")
        return kinds(checked(tmp_path, members, last, *places))

    before, since, later = (f"2026-11-2{day}T00:00:00.000Z" for day in (3, 4, 5))
    assert found() == found(later) == found(before, later) == set()
    assert found(later, since) == {"dropped_tail"}


def test_a_replay_goes_on_from_the_run_that_died(tmp_path: Path) -> None:
    died = steps()
    fields = {"kind": "step", "request_id": "r-1.replay.1", "at": died[-1]["at"]}
    replay = record(died[-1]["hash"], **fields)
    files = files_of(attempts=attempts(), steps=[*died, replay])

    assert kinds(checked(tmp_path, signed(files))) == set()


def test_an_anchor_of_another_hand_or_with_another_head_is_none(tmp_path: Path) -> None:
    anchor = anchored(tmp_path / "anchor.jsonl", attempts(), OTHER_KEY)
    assert kinds(checked(tmp_path, signed(whole()), anchor)) == {"unknown_key"}

    anchored(anchor, attempts())
    text = anchor.read_bytes()
    anchor.write_bytes(text.replace(attempts()[-1]["hash"].encode(), b"sha256:" + b"0" * 64))
    assert kinds(checked(tmp_path, signed(whole()), anchor)) == {"changed_anchor"}


def test_a_rotated_key_is_known_only_where_it_is_given(tmp_path: Path) -> None:
    path = written(tmp_path / "pack.zip", signed(whole(), OTHER_KEY))

    assert kinds(verify(path, KEYS)) == {"unknown_key"}
    assert kinds(verify(path, [*KEYS, public(OTHER_KEY)])) == set()


def test_a_key_that_only_the_manifest_names_signs_nothing(tmp_path: Path) -> None:
    members = signed(whole(), OTHER_KEY)
    text = members["manifest.json"].replace(
        public(OTHER_KEY).hex().encode(), KEYS[0].hex().encode()
    )

    assert kinds(checked(tmp_path, members | {"manifest.json": text})) == {"bad_signature"}


def test_a_manifest_of_another_pack_is_named(tmp_path: Path) -> None:
    other = signed(files_of(attempts=attempts(3), steps=steps(2)))
    other["definitions.jsonl"] = other["schemas.jsonl"] = other["outcomes.jsonl"] = b""
    members = {**other, **{n: c for n, c in signed(whole()).items() if n.startswith("manifest")}}

    assert {"foreign_manifest", "changed_file"} <= kinds(checked(tmp_path, members))


def test_a_zip_that_is_cut_is_named_at_any_length(tmp_path: Path) -> None:
    path = written(tmp_path / "pack.zip", signed(whole()))
    content = path.read_bytes()
    for size in range(0, len(content), 97):
        path.write_bytes(content[:size])
        assert kinds(verify(path, KEYS)) == {"truncated_zip"}, size


def test_bytes_that_are_flipped_anywhere_are_found(tmp_path: Path) -> None:
    path = written(tmp_path / "pack.zip", signed(whole()))
    content = bytearray(path.read_bytes())
    for at in range(0, len(content), 53):
        content[at] ^= 0x55
        path.write_bytes(content)
        report = verify(path, KEYS)
        content[at] ^= 0x55
        if not report.count:  # a time or an attribute in the zip's own directory
            with zipfile.ZipFile(path) as archive:
                assert archive.testzip() is None


def test_a_manifest_may_name_many_schemas_that_are_kept_no_more(tmp_path: Path) -> None:
    unknown = b",".join(b'"sha256:%064d"' % n for n in range(20_000))
    members = signed(whole())
    before = members["manifest.json"]
    text = before.replace(b'"unknown_digests": []', b'"unknown_digests": [' + unknown + b"]")
    assert len(text) > UNSIGNED_BYTES_MAX

    assert kinds(checked(tmp_path, signed_manifest(members, text))) == set()
    assert kinds(checked(tmp_path, {**members, "manifest.json": text})) == {"bad_signature"}


def test_a_manifest_that_names_another_key_than_the_one_that_signed_it_is_bad(
    tmp_path: Path,
) -> None:
    named, other = (public(key).hex().encode() for key in (KEY, OTHER_KEY))
    members = signed(whole())
    text = members["manifest.json"].replace(named, other)
    path = written(tmp_path / "pack.zip", signed_manifest(members, text))

    assert kinds(verify(path, KEYS)) == {"unknown_key"}
    assert kinds(verify(path, [*KEYS, public(OTHER_KEY)])) == {"bad_signature"}


def test_more_findings_than_can_be_named_are_counted(tmp_path: Path) -> None:
    files = files_of(attempts=attempts(FINDINGS_MAX + 20), steps=steps())
    files["attempts"] = [changed(it, lambda body: body.update(cost=-1)) for it in files["attempts"]]

    report = checked(tmp_path, signed(files))

    assert len(report.findings) == FINDINGS_MAX
    assert report.count >= FINDINGS_MAX + 20


HOSTILE: list[tuple[str, bytes, str]] = [
    ("manifest.json", b"{" * 100_000, "not_a_pack"),
    ("manifest.json", b"[]", "not_a_pack"),
    ("manifest.json", b" " * 2_000_000, "bad_signature"),
    ("manifest.json", b" " * 20_000_000, "not_a_pack"),
    ("manifest.json", b'{"key": 5}', "bad_signature"),
    ("manifest.sig", b"zz", "bad_signature"),
    ("manifest.sig", b"", "bad_signature"),
    ("manifest.sig", b"00" * 64, "bad_signature"),
    ("manifest.sig", b"ff" * 64, "bad_signature"),
    ("attempts.jsonl", b"0" * 50_000_000, "changed_file"),
    ("attempts.jsonl", b"[" * 2_000, "unreadable"),
    ("attempts.jsonl", b"\xff\n", "unreadable"),
    ("attempts.jsonl", b'{"kind": "attempt", "previous": [1], "hash": {}}\n', "changed_record"),
]


@pytest.mark.parametrize(("name", "content", "kind"), HOSTILE, ids=range(len(HOSTILE)))
def test_a_hostile_member_ends_as_a_finding(
    name: str, content: bytes, kind: str, tmp_path: Path
) -> None:
    assert kind in kinds(checked(tmp_path, {**signed(whole()), name: content}))


def test_records_of_any_form_end_as_findings_though_they_are_signed(tmp_path: Path) -> None:
    for body in (
        b'{"previous": [1], "hash": 5, "account_id": {}}\n',
        b'{"kind": "step", "workflow_id": ["w"], "agent": {"digest": []}, "previous": {}}\n',
        b'{"n": 1e400}\n',
        b'{"n": NaN}\n',
        b'{"a": "\\ud800"}\n',
        b'{"digest": 1, "text": null, "chain": [], "of": "x"}\n',
        b"[" * 100_000 + b"\n",
        b"9" * 5_000 + b"\n",
        b'{"kind": "step", "workflow_id": "w-0", "kind": "control_applied"}\n',
    ):
        for name in whole():
            files = whole()
            files[name] = [*files[name], body]
            report = checked(tmp_path, signed(files))
            assert report.count or name in {"outcomes", "steps"}, (name, body)


@pytest.mark.parametrize("name", ["attempts", "outcomes"])
def test_a_name_that_occurs_twice_is_unreadable_as_it_is_for_workers(
    name: str, tmp_path: Path
) -> None:
    """The hash covers the last value alone, and another reader may show the first."""
    files = whole()
    files[name][0] = b'{"kind":"refusal",' + files[name][0][1:]

    assert "unreadable" in kinds(checked(tmp_path, signed(files)))


def test_figures_of_a_manifest_that_no_exporter_writes_end_as_findings(tmp_path: Path) -> None:
    members = signed(whole())

    def said(before: bytes, now: bytes) -> set[str]:
        text = members["manifest.json"].replace(before, now)
        assert text != members["manifest.json"]
        return kinds(checked(tmp_path, signed_manifest(members, text)))

    assert said(b'"bytes":', b'"bytes":-') == {"not_a_pack"}
    assert said(b"604800.0", b"9" * 400) == set()


def test_a_line_of_any_length_is_not_read_as_a_whole(tmp_path: Path) -> None:
    files = whole()
    files["outcomes"] = [b'"' + b"x" * (LINE_BYTES_MAX + 10) + b'"\n']

    assert "changed_file" in kinds(checked(tmp_path, signed(files)))


def test_an_account_begins_again_after_its_rest_and_not_before(tmp_path: Path) -> None:
    def gap(at: str) -> set[str]:
        fields = {"kind": "attempt", "account_id": "w-0", "request_id": "r-1"}
        first = record(None, started_at="2026-11-01T10:00:00.000Z", **fields)
        second = record(None, started_at=at, **fields)
        files = files_of(attempts=[first, second], steps=steps())
        return kinds(checked(tmp_path, signed(files)))

    assert gap("2026-11-08T10:00:00.000Z") == set()
    assert gap("2026-11-07T10:00:00.000Z") == {"fork"}
