"""Each way in which a request can end, on a real Kafka, by a provider that plays a script."""

import asyncio
import hashlib
import json
import time
from datetime import UTC, datetime

import pytest
import rfc8785
from jsonschema import Draft202012Validator

from answerbus.answers.plan_proposal import PLAN_PROPOSAL
from answerbus.topics import ATTEMPTS, REQUESTS
from answerbus.trace import read_trace
from tests.integration.bus import DEP_BUMP, ROOT, Bus
from tests.integration.evidence import Event, JsonObject, assert_sound, raw_of
from tests.integration.outcome_cases import (
    GOOD,
    HONEST,
    OUTPUT_TOKENS,
    PERSON,
    RATIONALE,
    REFUSE,
    REPLAY,
    REQUESTED,
    TOKENS,
    UNPUBLISHED,
    USAGE,
    WRAPPED,
    Run,
    play,
)

pytestmark = pytest.mark.kafka

PARTITIONS = 4
SCHEMAS = ROOT / "contracts" / "schemas"


@pytest.fixture(scope="module")
def run(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("outcomes")
    bus = Bus(kafka_bootstrap, f"outcomes-{time.time_ns()}", PARTITIONS, folder)
    return asyncio.run(play(bus))


def spent(run: Run, request_id: str) -> tuple[int, int, int]:
    """Attempts, tokens and money, as the terminal shows the account."""
    account = run.terminal(request_id)["account"]["spent"]
    return account["attempts"], account["tokens"], account["micro_usd"]


def event_id(event: Event) -> str:
    named = event.body.get("event_id") or event.body.get("dead_letter_id")
    return named or str(event.record.key.decode())  # a private record goes by its key


def events_of(run: Run, request_id: str) -> list[tuple[int, bool, str, str | None]]:
    """Number, counted, outcome and failure of each attempt."""
    return [
        (a["attempt"], a["counted"], a["outcome"], a["failure"] and a["failure"]["kind"])
        for a in run.evidence.attempts(request_id)
    ]


def cause(run: Run, request_id: str) -> JsonObject:
    dead_letter = run.terminal(request_id)
    assert dead_letter["kind"] == "dead_letter"
    assert dead_letter["dead_letter_id"] == f"{request_id}.dead-letter"
    return dict(dead_letter["cause"])


def test_each_request_has_its_one_terminal_and_the_books_agree(run: Run) -> None:
    asked = ["first", *(body["request_id"] for body in REQUESTED)]

    assert sorted(body["request_id"] for body in run.evidence.terminals) == sorted(asked)
    assert_sound(run.evidence)
    assert {(call["request_id"], call["attempt"]) for call in run.calls} == {
        key for _, key in run.evidence.spends()
    }


def test_a_result_says_everything_about_itself(run: Run) -> None:
    digest = hashlib.sha256(rfc8785.dumps(PLAN_PROPOSAL.schema())).hexdigest()
    (asked,) = [r for r in run.evidence.records[REQUESTS] if b'"result"' in r.value]
    appended = datetime.fromtimestamp(asked.timestamp / 1000, UTC)
    body = rfc8785.dumps(json.loads(asked.value))
    found = dict(run.terminal("result"))
    notes, finished_at = found.pop("notes"), datetime.fromisoformat(found.pop("finished_at"))

    assert found == {
        "kind": "result",
        "event_id": "result.result",
        "request_id": "result",
        "workflow_id": "w-result",
        "schema": {
            "kind": "contract",
            "name": "plan_proposal",
            "version": 1,
            "digest": f"sha256:{digest}",
        },
        "answer": DEP_BUMP,
        "attempt": 1,
        "model": {
            "profile": "default",
            "provider": "scripted",
            "model": "scripted",
            "dialect": "openai",
        },
        "usage": {**USAGE, "micro_usd": None},
        "account": {
            "id": "w-result",
            "limit": {"attempts": 3, "tokens": None, "micro_usd": None},
            "spent": {"attempts": 1, "tokens": TOKENS, "micro_usd": 0},
        },
        "requested_at": appended.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "labels": {"tenant": "acme"},
        "replay": None,
        "body_digest": f"sha256:{hashlib.sha256(body).hexdigest()}",
    }
    assert all("not enforced by this provider" in note for note in notes)
    assert appended <= finished_at


def test_the_audit_of_a_result(run: Run) -> None:
    (found,) = [dict(attempt) for attempt in run.evidence.attempts("result")]
    written = {name: found.pop(name) for name in ("started_at", "duration_ms", "worker", "hash")}
    digests = {name: found.pop(name) for name in list(found) if name.endswith("_digest")}

    assert found == {
        "kind": "attempt",
        "event_id": "result.attempt.1",
        "request_id": "result",
        "workflow_id": "w-result",
        "account_id": "w-result",
        "attempt": 1,
        "counted": True,
        "outcome": "result",
        "failure": None,
        "model": run.terminal("result")["model"],
        "provider_request_id": "result.1",
        "stop_reason": "stop",
        "usage": {**USAGE, "micro_usd": None},
        "charged": {"attempts": 1, "micro_usd": 0, "tokens": 120},
        "labels": {"tenant": "acme"},
        "rationale": RATIONALE,
        "previous": None,
    }
    assert all(written.values()) or written["duration_ms"] == 0
    assert digests["schema_digest"] == run.terminal("result")["schema"]["digest"]
    answer = json.dumps(GOOD["json"], ensure_ascii=False)  # as the scripted provider writes it
    assert digests["answer_digest"] == f"sha256:{hashlib.sha256(answer.encode()).hexdigest()}"
    assert {"wire_schema_digest", "prompt_digest"} <= set(digests)
    assert None not in digests.values()


def test_refusals(run: Run) -> None:
    model, provider = run.terminal("refusal-model"), run.terminal("refusal-provider")
    texts = ("kind", "event_id", "by", "reason", "category", "answer")

    assert [model[name] for name in texts] == [
        "refusal",
        "refusal-model.refusal",
        "model",
        "The advisory has no fix.",
        "out_of_scope",
        REFUSE,
    ]
    assert [provider[name] for name in texts] == [
        "refusal",
        "refusal-provider.refusal",
        "provider",
        "No.",
        "violence",
        None,
    ]
    assert events_of(run, "refusal-model") == [(1, True, "refusal", None)]
    assert events_of(run, "refusal-provider") == [(1, True, "refusal", "refused")]
    assert run.terminal("refusal-retried")["answer"] == DEP_BUMP
    assert events_of(run, "refusal-retried") == [
        (1, True, "retry", "refused"),
        (2, True, "result", None),
    ]


def test_typed_problems_reach_the_model_and_the_next_answer_counts(run: Run) -> None:
    (retry,) = run.evidence.retries("retried")
    (problem,) = retry["failure"]["problems"]

    assert (problem["path"], problem["code"]) == ("/manifest_path", "escapes_sandbox")
    assert retry["event_id"] == "retried.retry.2"
    assert retry["request"]["request_id"] == "retried"
    assert (retry["next_attempt"], retry["counted"], retry["waits"]) == (2, True, 0)
    assert retry["prior"] == [
        {
            "attempt": 1,
            "failure": retry["failure"],
            "answer": UNPUBLISHED,
            "answer_digest": run.evidence.attempts("retried")[0]["answer_digest"],
        }
    ]
    assert events_of(run, "retried") == [(1, True, "retry", "invalid"), (2, True, "result", None)]
    result = run.terminal("retried")
    assert (result["answer"], result["attempt"]) == (DEP_BUMP, 2)
    assert spent(run, "retried") == (2, 2 * TOKENS, 0)


def test_a_malformed_answer_is_asked_for_again(run: Run) -> None:
    assert run.terminal("malformed")["answer"] == DEP_BUMP
    assert events_of(run, "malformed") == [
        (1, True, "retry", "malformed"),
        (2, True, "result", None),
    ]


def test_a_truncated_answer_gets_a_larger_limit(run: Run) -> None:
    retries = run.evidence.retries("truncated")
    limits = [OUTPUT_TOKENS, 2 * OUTPUT_TOKENS]

    assert [r["failure"] for r in retries] == [
        {"kind": "truncated", "limit": limit} for limit in limits
    ]
    assert run.terminal("truncated")["attempt"] == 3


def test_a_budget_that_runs_out(run: Run) -> None:
    dead_letter = run.terminal("exhausted")

    assert cause(run, "exhausted") == {"kind": "budget_exhausted", "which": "attempts"}
    assert [prior["failure"]["kind"] for prior in dead_letter["prior"]] == ["invalid", "invalid"]
    assert dead_letter["request"]["budget"] == {"attempts": 2, "tokens": None, "micro_usd": None}
    assert (dead_letter["raw"], dead_letter["round"]) == (None, 0)
    assert spent(run, "exhausted") == (2, 2 * TOKENS, 0)
    assert events_of(run, "exhausted")[-1] == (2, True, "dead_letter", "invalid")


def test_budgets_of_tokens_and_money(run: Run) -> None:
    assert cause(run, "few-tokens") == {"kind": "budget_exhausted", "which": "tokens"}
    assert spent(run, "few-tokens") == (0, 0, 0)
    assert run.calls_of("few-tokens") == 0
    assert run.terminal("tokens")["kind"] == run.terminal("money")["kind"] == "result"
    assert spent(run, "tokens") == (1, TOKENS, 0)
    assert spent(run, "money") == (1, TOKENS, 100 + 20 * 10)
    assert run.terminal("money")["usage"]["micro_usd"] == 100 + 20 * 10


def test_policies_for_invalid_answers(run: Run) -> None:
    found = cause(run, "invalid")
    unvalidated = run.terminal("unvalidated")

    assert (found["kind"], found["failure"]["kind"]) == ("invalid_answer", "invalid")
    assert events_of(run, "invalid") == [(1, True, "dead_letter", "invalid")]
    assert unvalidated["kind"] == "unvalidated_result"
    assert unvalidated["event_id"] == "unvalidated.result"
    assert "answer" not in unvalidated
    assert unvalidated["unvalidated_answer"] == UNPUBLISHED
    assert [problem["path"] for problem in unvalidated["problems"]] == ["/manifest_path"]
    assert events_of(run, "unvalidated") == [(1, True, "unvalidated_result", "invalid")]


def test_text_and_inline_schemas(run: Run) -> None:
    bare = run.terminal("bare")

    assert run.terminal("text")["answer"] == 'It {is} "text".\n'
    assert run.terminal("text")["schema"]["kind"] == "text"
    own = run.terminal("wrapped")["notes"]
    assert len(own) == 1, "the provider does not enforce one keyword"
    assert run.terminal("wrapped")["answer"] == WRAPPED | {
        "notes": ["short", *own],
        "failure_reason": None,
    }
    assert run.terminal("honest")["kind"] == "result"
    assert run.terminal("honest")["answer"] == HONEST | {"notes": own}
    assert bare["answer"] == {"name": "Bob"}
    assert bare["schema"] == {
        "kind": "inline",
        "name": "person",
        "wrapped": False,
        "digest": f"sha256:{hashlib.sha256(rfc8785.dumps(PERSON)).hexdigest()}",
    }
    (retry,) = run.evidence.retries("bare")
    assert [problem["path"] for problem in retry["failure"]["problems"]] == ["/name"]


@pytest.mark.parametrize(
    "kind", ["unknown_schema", "hostile_schema", "unknown_profile", "rejected"]
)
def test_what_cannot_be_asked_costs_nothing(run: Run, kind: str) -> None:
    request_id = kind.replace("_", "-")
    calls = 1 if kind == "rejected" else 0

    assert cause(run, request_id)["kind"] == kind
    assert spent(run, request_id) == (0, 0, 0)
    assert run.calls_of(request_id) == calls
    assert events_of(run, request_id) == [(1, False, "dead_letter", "unavailable")] * calls


def test_deadlines(run: Run) -> None:
    asked = {body["request_id"]: body for body in REQUESTED}
    for request_id, calls in {"waiting": 0, "hanging": 1, "throttled-long": 1}.items():
        dead_letter = run.terminal(request_id)
        appended = datetime.fromisoformat(dead_letter["origin"]["timestamp"])
        late = datetime.fromisoformat(dead_letter["at"]) - appended

        assert cause(run, request_id) == {"kind": "deadline_passed"}
        assert run.calls_of(request_id) == calls
        assert asked[request_id]["ttl_s"] <= late.total_seconds() < asked[request_id]["ttl_s"] + 60
    assert events_of(run, "hanging") == [(1, True, "retry", "timed_out")]
    assert spent(run, "hanging")[0] == 1
    (retry,) = run.evidence.retries("throttled-long")
    assert (retry["counted"], retry["waits"], retry["next_attempt"]) == (False, 1, 2)
    assert retry["not_before"] == retry["deadline"]


def test_what_the_provider_did_not_work_on_is_not_charged_but_has_its_number(run: Run) -> None:
    assert events_of(run, "throttled") == [
        (1, False, "released", "throttled"),
        (2, True, "result", None),
    ]
    assert run.terminal("throttled")["attempt"] == 2
    assert spent(run, "throttled") == (1, TOKENS, 0)
    assert events_of(run, "throttled-long") == [(1, False, "retry", "throttled")]
    assert spent(run, "throttled-long") == (0, 0, 0)
    assert events_of(run, "failing")[0] == (1, True, "retry", "unavailable")


def test_unknown_fields_are_named(run: Run) -> None:
    notes = run.terminal("misspelt")["notes"]

    assert {note for note in notes if "unknown field" in note} == {
        "unknown field /budgte was ignored",
        "unknown field /context/fact was ignored",
    }


def test_a_replay_is_charged_to_its_own_account_in_its_workflows_lane(run: Run) -> None:
    replayed = run.terminal("replay")

    assert replayed["kind"] == "result"
    assert replayed["replay"] == REPLAY
    assert (replayed["account"]["id"], spent(run, "replay")) == (REPLAY["account"], (1, TOKENS, 0))
    assert cause(run, "replay-after")["kind"] == "budget_exhausted"
    assert run.terminal("replay-after")["account"]["limit"]["attempts"] == 1


def test_sizes(run: Run) -> None:
    (record,) = [r for r in run.evidence.records[REQUESTS] if len(r.value) > 512 * 1024]
    dead_letter = run.terminal("too-large")
    value, _ = raw_of(dead_letter)

    assert cause(run, "huge") == {"kind": "answer_too_large"}
    assert events_of(run, "huge") == [(1, True, "dead_letter", None)]
    assert dead_letter["cause"] == {"kind": "request_too_large"}
    place = f"{record.topic}-{record.partition}-{record.offset}"
    assert dead_letter["dead_letter_id"] == f"{place}.dead-letter"
    assert (dead_letter["request"], dead_letter["account"]) == (None, None)
    assert value == record.value[: 384 * 1024]
    assert dead_letter["raw"]["bytes"] == len(record.value)
    assert dead_letter["raw"]["digest"] == f"sha256:{hashlib.sha256(record.value).hexdigest()}"
    assert dead_letter["raw"]["truncated"] is True


def test_audit_only_text_is_nowhere_but_in_attempts(run: Run) -> None:
    holding = {e.topic.name for e in run.evidence.written if RATIONALE.encode() in e.record.value}

    assert holding == {ATTEMPTS.name}


def test_every_event_satisfies_its_committed_schema(run: Run) -> None:
    schemas = {
        path.name.partition(".")[0]: Draft202012Validator(json.loads(path.read_text()))
        for path in (SCHEMAS / "events").glob("*.v1.json")
    }
    for event in run.evidence.written:
        schemas[event.body["kind"]].validate(event.body)


def test_every_published_answer_satisfies_the_schema_that_was_asked_for(run: Run) -> None:
    asked = {body["request_id"]: body["answer_schema"] for body in REQUESTED}
    contract = json.loads((SCHEMAS / "contracts" / "plan_proposal.v1.json").read_text())
    proposal, person = Draft202012Validator(contract), Draft202012Validator(PERSON)
    for event in run.evidence.terminals:
        schema = asked.get(event["request_id"], {"kind": "contract"})
        match event["kind"], schema["kind"]:
            case ("result", "contract"):
                proposal.validate(event["answer"])
            case ("result", "inline") if not schema.get("wrapped", True):
                person.validate(event["answer"])
            case ("result", "inline") if event["answer"]["success"]:
                person.validate(event["answer"]["output"])


def test_headers(run: Run) -> None:
    by_id = {event_id(event): event for event in run.evidence.written}
    result = by_id["result.result"]
    trace = read_trace([("traceparent", result.headers["traceparent"].encode())])
    attempt = by_id["result.attempt.1"].headers["traceparent"]

    assert trace
    assert trace.child("result") == trace, "it began here, at the request"
    assert attempt == trace.child("result.attempt.1").headers()["traceparent"]
    assert result.headers == {
        **trace.headers(),
        "ce_specversion": "1.0",
        "ce_id": "result.result",
        "ce_source": "/answerbus/worker",
        "ce_type": "answerbus.result.v1",
        "ce_time": result.body["finished_at"],
        "ce_subject": "w-result",
        "ce_partitionkey": "w-result",
        "ce_requestid": "result",
        "ce_contract": "plan_proposal.v1",
        "ce_variant": "dep_bump",
        "ce_dataschema": "urn:answerbus:event:result.v1",
        "content-type": "application/json",
    }
    assert by_id["bare.result"].headers["ce_contract"] == "inline"
    assert by_id["refusal-model.refusal"].headers["ce_variant"] == "refuse"
    assert by_id["few-tokens.dead-letter"].headers["ce_type"] == "answerbus.dead_letter.v1"
    for event in run.evidence.written:
        assert event.headers["ce_id"] == event_id(event)
        assert event.headers["ce_type"] == f"answerbus.{event.body['kind']}.v1"
        assert event.headers.get("ce_subject") == event.body.get("workflow_id")


def test_every_event_says_when_it_happened(run: Run) -> None:
    untimed = {e.body["kind"] for e in run.evidence.written if "ce_time" not in e.headers}

    assert untimed == set()
