"""The next step of a run as an ordinary request, derived from request and run."""

from answerbus.request import Message, Request
from services.worker.core.run.ask_person import HOW_TO_ASK
from services.worker.core.run.delegation import how_to_delegate, may_use
from services.worker.core.run.run import Run
from services.worker.core.run.transcript import (
    FINISH_FORM,
    TEXT_FORM,
    Transcript,
    transcript,
)
from services.worker.core.run.transcript_draft import PromptRoom, TranscriptDraft

# The form of a call is shown too: some servers enforce a schema without showing it to the model.
WORK_IN_STEPS = (
    "You work in steps. In each step answer with a list of actions. To learn or do something, call "
    'tools with the action {{"kind": "tool_call", "name": …, "args": …}}: you are given their '
    "results, and then the next step. When you have what you need, call no tool: {end}"
)
END_IN_TEXT = "your `text_response` is the final answer."
END_BY_FINISH = "give the final answer with one `finish` action."
LAST_STEP = "This is the last step: no tool can be called any more. Answer now."


def transcript_of_run(
    request: Request,
    run: Run,
    room_tokens: int | None = None,
    before: TranscriptDraft | None = None,
) -> Transcript:
    """The history of the run for its next step, in a prompt of at most so many tokens.

    `before` is the draft of the step before.
    """
    end = TEXT_FORM if request.answer_schema.kind == "text" else FINISH_FORM
    if room_tokens is None:
        return transcript(run, end, before=before)
    beside = next_step_request(request, run, Transcript(), must_finish=False).context
    room = PromptRoom(room_tokens, len(beside.model_dump_json().encode()))
    return transcript(run, end, room, before)


def next_step_request(
    request: Request, run: Run, transcript: Transcript | None = None, *, must_finish: bool
) -> Request:
    """The request of the run's next step, with the `transcript` of the run so far.

    What is in one prompt is in the next one too, and what is new comes at its end, as far
    as old results need not be shortened: providers read a beginning that they know for less.
    """
    definition, context = run.definition, request.context
    is_text = request.answer_schema.kind == "text"
    end = END_IN_TEXT if is_text else END_BY_FINISH
    how = [WORK_IN_STEPS.format(end=end)]
    if definition.delegate:
        how.append(how_to_delegate(may_use=may_use(request, run)))
    if definition.ask_person:
        how.append(HOW_TO_ASK)
    instructions = [definition.instructions, *how, context.instructions]
    so_far = transcript_of_run(request, run) if transcript is None else transcript
    messages = [*context.messages, *so_far.messages]
    if must_finish and (definition.tools or definition.delegate or definition.ask_person):
        messages.append(Message(role="user", content=LAST_STEP, trust="trusted"))
    whole = context.model_copy(
        update={
            "instructions": "\n\n".join(part for part in instructions if part),
            "facts": (*run.described_tools, *context.facts),
            "messages": tuple(messages),
        }
    )
    return request.model_copy(update={"context": whole})
