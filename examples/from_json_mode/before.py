"""Before: an HTTP call in JSON mode, with all that one has to write around it."""

import json
import time

from openai import APIError, OpenAI
from pydantic import BaseModel, ValidationError, field_validator

ATTEMPTS_MAX = 3
TEAMS = ("billing", "shipping", "accounts")  # from a database, say


class Route(BaseModel):
    team: str
    urgent: bool

    @field_validator("team")
    @classmethod
    def _known(cls, team: str) -> str:
        if team not in TEAMS:
            raise ValueError(f"no team of ours; these are {', '.join(TEAMS)}")
        return team


def route(client: OpenAI, ticket: str) -> Route | None:
    schema = json.dumps(Route.model_json_schema())
    told = f"Which team takes this ticket? Answer with JSON that fits this schema: {schema}"
    for attempt in range(ATTEMPTS_MAX):
        try:
            said = client.chat.completions.create(
                model="gpt-4o-mini",
                response_format={"type": "json_object"},  # any object: the schema is a wish
                messages=[
                    {"role": "system", "content": told},
                    {"role": "user", "content": ticket},
                ],
            )
            return Route.model_validate_json(said.choices[0].message.content or "")
        except ValidationError as error:
            told += f" Your last answer was wrong: {error}"
        except APIError:
            time.sleep(2**attempt)
    return None
