"""What a table of the settings file is."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """A table of the file; unknown names are errors, so that a misspelt one does not go unseen."""

    model_config = ConfigDict(frozen=True, extra="forbid")
