"""The settings file that a stack writes is one that the services accept."""

from pathlib import Path

from infra.stack import Place
from services.settings.profiles import OpenAIProfile, ScriptedProfile
from services.settings.settings import Settings, load


def written(place: Place) -> Settings:
    text = place.settings("127.0.0.1:1", "http://127.0.0.1:2/v1", "local-small")
    place.config.write_text(text, encoding="utf-8")
    return load(place.config, {})


def test_the_default_profile_asks_the_local_model(tmp_path: Path) -> None:
    settings = written(Place(tmp_path, output_tokens=99, show_schema=False))

    assert settings.kafka.bootstrap_servers == "127.0.0.1:1"
    assert settings.profiles == {
        "default": OpenAIProfile(
            provider="openai",
            dialect="llama_cpp",
            model="local-small",
            base_url="http://127.0.0.1:2/v1",
            temperature=0,
            timeout_s=120,
            max_in_flight=2,
            max_output_tokens=99,
            context_tokens=4_096,
            show_schema=False,
        )
    }


def test_profiles_are_added_to_the_settings_of_a_place(tmp_path: Path) -> None:
    more = '[profiles.rehearsal]\nprovider = "scripted"\nscript = "script.json"\n'

    assert written(Place(tmp_path, profiles=more)).profiles["rehearsal"] == ScriptedProfile(
        provider="scripted", script=Path("script.json")
    )
