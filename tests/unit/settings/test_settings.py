"""Settings: one file, overridden by variables; each fault is said in one sentence."""

from pathlib import Path

import pytest

from services.settings.console import ConsoleSettings
from services.settings.profiles import OpenAIProfile, Price, ScriptedProfile
from services.settings.secrets import secrets_of
from services.settings.section import Section
from services.settings.settings import KafkaSettings, Settings, SetUpError, load
from services.settings.worker import WorkerSettings

FILE = """
[kafka]
bootstrap_servers = "kafka:9092"
partitions = 6

[worker]
health = "0.0.0.0:8080"
retry_first_s = 0.5

[profiles.default]
provider = "openai"
model = "gpt-5-mini"
price = {input_usd = 0.25, output_usd = 2.0}

[profiles.played]
provider = "scripted"
script = "script.json"
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "answerbus.toml"
    path.write_text(FILE, encoding="utf-8")
    return path


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A working folder without a settings file."""
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("nowhere")
def test_without_a_file_and_variables_all_have_defaults() -> None:
    assert load(None, {}) == Settings()


def test_the_file_is_read_into_types(file: Path) -> None:
    assert load(file, {}) == Settings(
        kafka=KafkaSettings(bootstrap_servers="kafka:9092", partitions=6),
        worker=WorkerSettings(health="0.0.0.0:8080", retry_first_s=0.5),
        profiles={
            "default": OpenAIProfile(
                provider="openai", model="gpt-5-mini", price=Price(input_usd=0.25, output_usd=2.0)
            ),
            "played": ScriptedProfile(provider="scripted", script=Path("script.json")),
        },
    )


def test_the_file_of_the_working_folder_is_the_default(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)

    assert load(None, {}) == load(file, {})


def test_variables_override_the_file_and_take_its_types(file: Path) -> None:
    settings = load(
        file,
        {
            "ANSWERBUS_KAFKA__PARTITIONS": "24",
            "ANSWERBUS_WORKER__RETRY_FIRST_S": "2.5",
            "ANSWERBUS_PROFILES__DEFAULT__MODEL": "gpt-5",
            "ANSWERBUS_PROFILES__DEFAULT__PRICE__INPUT_USD": "1.25",
            "ANSWERBUSY": "not ours",
            "PATH": "not ours",
        },
    )

    default = settings.profiles["default"]
    assert settings.kafka.partitions == 24
    assert settings.worker.retry_first_s == 2.5
    assert isinstance(default, OpenAIProfile)
    assert (default.model, default.price) == ("gpt-5", Price(input_usd=1.25, output_usd=2.0))


@pytest.mark.usefixtures("nowhere")
def test_lists_and_tables_are_json_in_a_variable() -> None:
    settings = load(
        None,
        {
            "ANSWERBUS_CONSOLE__WORKERS": '["http://a:8080", "http://b:8080"]',
            "ANSWERBUS_CONSOLE__OPERATORS": '{"Anna@acme": "ANNA_TOKEN"}',
            "ANSWERBUS_WORKER__HEALTH_HOSTS": "[]",
        },
    )

    assert settings.console.workers == ("http://a:8080", "http://b:8080")
    assert settings.console.operators == {"Anna@acme": "ANNA_TOKEN"}
    assert settings.worker.health_hosts == ()


@pytest.mark.usefixtures("nowhere")
@pytest.mark.parametrize("text", ["http://a:8080", "[", "", '{"a": "b"}', "[1]"])
def test_a_list_in_a_variable_that_is_none_is_said_in_one_sentence(text: str) -> None:
    with pytest.raises(SetUpError, match=r"`console\.workers") as raised:
        load(None, {"ANSWERBUS_CONSOLE__WORKERS": text})

    assert "\n" not in str(raised.value)
    if not text.startswith(("{", "[1")):
        assert 'must be JSON in a variable, such as ["a", "b"]' in str(raised.value)


@pytest.mark.usefixtures("nowhere")
def test_a_profile_can_be_made_of_variables_alone() -> None:
    settings = load(
        None,
        {
            "ANSWERBUS_PROFILES__TEST__PROVIDER": "scripted",
            "ANSWERBUS_PROFILES__TEST__SCRIPT": "script.json",
        },
    )

    assert settings.profiles == {
        "test": ScriptedProfile(provider="scripted", script=Path("script.json"))
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[kafka]\npartitons = 12\n", "kafka.partitons"),
        ("[kafak]\npartitions = 12\n", "kafak"),
        ("[kafka]\npartitions = 0\n", "kafka.partitions"),
        ('[kafka]\ntopic_prefix = "a b"\n', "kafka.topic_prefix"),
        ('[profiles.default]\nprovider = "oracle"\n', "profiles.default"),
        ('[profiles.default]\nprovider = "openai"\n', "profiles.default.model"),
        (
            '[profiles.Default]\nprovider = "openai"\nmodel = "m"\n',
            "'Default' must be in lower case",
        ),
        ('[profiles."night shift"]\nprovider = "openai"\nmodel = "m"\n', "'night shift' must be 1"),
        ('[profiles.""]\nprovider = "openai"\nmodel = "m"\n', "'' must be 1 to 128 of a-z"),
        ('[profiles."é"]\nprovider = "openai"\nmodel = "m"\n', "no request can name another"),
        ('[agents."a b"]\ninstructions = "x"\n', "the agent name 'a b' must be 1"),
        ('[worker]\nhealth = "nonsense"\n', "must be HOST:PORT, not 'nonsense'"),
        ('[worker]\nhealth = "localhost:65536"\n', "must be HOST:PORT"),
        ("[kafka\n", "unreadable"),
        ("a = " + "[" * 2_000, "unreadable"),
        ("\ufeff\x00", "unreadable"),
    ],
    ids=lambda text: repr(text)[:40],
)
def test_a_wrong_file_is_said_in_one_sentence(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(SetUpError) as raised:
        load(path, {})

    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[profiles.default]\nprovider = "openai"\nmodle = "x"\n',
            "`profiles.default.modle` is unknown; did you mean `model`?",
        ),
        ('[profiles.a]\nprovider = "ollama"\nmodel = "m"\nthnk = true\n', "did you mean `think`?"),
        (
            '[profiles.a]\nprovider = "gemini"\nmodel = "m"\nprice.input_us = 1\n',
            "`profiles.a.price.input_us` is unknown; did you mean `input_usd`?",
        ),
        ("[kafka]\npartitons = 12\n", "`kafka.partitons` is unknown; did you mean `partitions`?"),
        ("[kafak]\npartitions = 12\n", "`kafak` is unknown; did you mean `kafka`?"),
        (
            '[profile.default]\nprovider = "openai"\n',
            "`profile` is unknown; did you mean `profiles`?",
        ),
        ("[worker]\nMAX_IN_FLIGHT = 1\n", "did you mean `max_in_flight`?"),
        ("[worker]\nxyzzy = 1\n", "`worker.xyzzy` is unknown. Correct it in"),
        ("[console.operators]\n'a b' = 'X'\n", "console.operators"),
        ('[profiles.a]\nmodel = "m"\n', "`profiles.a`: `provider` must be one of anthropic, azure"),
        ('[profiles.a]\nprovider = "opnai"\n', "`profiles.a`: `provider` must be one of anthropic"),
        ("[agents.a]\nversion = 1\n", "`agents.a.instructions`: must be set."),
        ("kafka = 5\n", "`kafka`: must be a table. Correct it in"),
        ('[profiles]\ndefault = "x"\n', "`profiles.default`: must be a table."),
        (
            '[agents.a]\ninstructions = "x"\nbudget = {attempts = 5, usd = 1}\n',
            "`agents.a.budget`: unknown: usd; there are `attempts`, `micro_usd`, `tokens`.",
        ),
    ],
)
def test_a_misspelt_name_is_reported_with_the_one_that_was_meant(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "answerbus.toml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(SetUpError) as raised:
        load(path, {})

    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ('[console]\nworkers = ["x"]\n', " or in the variable ANSWERBUS_CONSOLE__WORKERS."),
        ('[budgets."tenant:*"]\nusd.week = 5\n', "wrong.toml."),
        ("kafka = 5\n", "wrong.toml."),
    ],
)
def test_no_variable_is_named_that_cannot_be_set(tmp_path: Path, text: str, end: str) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text(text, encoding="utf-8")

    with pytest.raises(SetUpError) as raised:
        load(path, {})

    assert str(raised.value).endswith(end)


@pytest.mark.wide
@pytest.mark.usefixtures("nowhere")
def test_every_setting_that_lost_a_dead_letter_is_found_again() -> None:
    tables: dict[str, type[Section]] = {
        "kafka": KafkaSettings,
        "worker": WorkerSettings,
        "console": ConsoleSettings,
    }
    for table, kind in tables.items():
        for name in kind.model_fields:
            if len(name) <= 4:
                continue
            misspelt = name[:2] + name[3:]
            with pytest.raises(SetUpError, match="did you mean") as raised:
                load(None, {f"ANSWERBUS_{table}__{misspelt}".upper(): "1"})
            assert f"`{table}.{misspelt}` is unknown" in str(raised.value)


def test_the_settings_of_a_trial_are_found_where_there_are_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".run").mkdir()
    (tmp_path / ".run" / "answerbus.toml").write_text("[kafka]\npartitions = 7\n")
    assert load(None, {}).kafka.partitions == 7

    (tmp_path / "answerbus.toml").write_text("[kafka]\npartitions = 8\n")
    assert load(None, {}).kafka.partitions == 8


def test_bytes_that_are_no_text_are_an_unreadable_file(tmp_path: Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_bytes(b"\xff\xfe")

    with pytest.raises(SetUpError, match="unreadable"):
        load(path, {})


def test_a_file_that_was_named_must_be_there(tmp_path: Path) -> None:
    with pytest.raises(SetUpError, match=r"no settings file .*--config"):
        load(tmp_path / "missing.toml", {})


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        ("ANSWERBUS_KAFKA__PARTITIONS", "many", "ANSWERBUS_KAFKA__PARTITIONS"),
        ("ANSWERBUS_KAFKA__PARTITONS", "12", "kafka.partitons"),
        ("ANSWERBUS_KAFKA", "x", "is unknown"),
        ("ANSWERBUS_", "x", "is unknown"),
        ("ANSWERBUS_KAFKA__", "x", "is unknown"),
        ("ANSWERBUS_KAFKA__PARTITIONS__DEEPER", "x", "names a table"),
        ("ANSWERBUS_KAFAK__PARTITIONS", "12", "kafak"),
    ],
)
def test_a_wrong_variable_is_said_in_one_sentence(
    file: Path, variable: str, value: str, text: str
) -> None:
    with pytest.raises(SetUpError) as raised:
        load(file, {variable: value})

    assert text in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_complaint_never_repeats_the_value(file: Path) -> None:
    """It may be a secret in the wrong place."""
    with pytest.raises(SetUpError) as raised:
        load(file, {"ANSWERBUS_KAFKA__SECURITY_PROTOCOL": "s3cret"})

    assert "s3cret" not in str(raised.value)


def test_settings_cannot_be_changed(file: Path) -> None:
    with pytest.raises(ValueError, match="frozen"):
        load(file, {}).kafka.__setattr__("partitions", 1)


@pytest.mark.parametrize("dialect", ["llama_cpp", "plain", "vllm"])
def test_the_dialect_of_an_engine_is_for_a_server_of_ones_own(dialect: str) -> None:
    profile = {"provider": "openai", "model": "m", "dialect": dialect}
    variables = {f"ANSWERBUS_PROFILES__HOUSE__{key}": text for key, text in profile.items()}

    with pytest.raises(SetUpError, match="set `base_url`"):
        load(None, variables)
    assert load(None, variables | {"ANSWERBUS_PROFILES__HOUSE__BASE_URL": "http://h/v1"}).profiles


def test_all_secrets_that_settings_lead_to_are_known(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {
        "kafka": {"sasl_plain_password_env": "KAFKA_PASSWORD"},
        "worker": {"prompt_secret_env": "MARKS"},
        "console": {
            "operator_token_env": "OPERATOR",
            "viewer_token_env": "VIEWER",
            "approvers": {"ann": "APPROVER"},
            "operators": {"night@acme": "NIGHT"},
            "oidc": {
                "issuer": "https://login.example",
                "client_id": "c",
                "client_secret_env": "CLIENT",
                "operators": ["o"],
            },
        },
        "profiles": {
            "one": {"provider": "gemini", "model": "m", "api_key_env": "ONE"},
            "two": {"provider": "openai", "model": "m", "base_url": "http://u:p%40ss@h/v1"},
            "odd": {
                "provider": "openai",
                "model": "m",
                "base_url": "http://us%65r:of-none@[",
                "api_key_env": None,
            },
            "token": {"provider": "ollama", "model": "m", "base_url": "https://tok:en-1@h/a@b"},
            "bare": {"provider": "ollama", "model": "m", "base_url": "http://tok-2@h:1"},
            "path": {"provider": "ollama", "model": "m", "base_url": "http://h/v1/@cf/m"},
            "played": {"provider": "scripted", "script": "script.json"},
        },
    }
    named = (
        "KAFKA_PASSWORD",
        "MARKS",
        "OPERATOR",
        "VIEWER",
        "NIGHT",
        "APPROVER",
        "CLIENT",
        "ONE",
        "OPENAI_API_KEY",
    )
    for name in named:
        monkeypatch.setenv(name, f"value of {name}")

    found = secrets_of(Settings.model_validate(table))

    in_addresses = {"u", "p@ss", "p%40ss", "us%65r", "user", "of-none", "tok", "en-1", "tok-2"}
    assert set(found) == {*(f"value of {name}" for name in named), *in_addresses}


@pytest.mark.parametrize("provider", ["openai", "anthropic", "gemini", "ollama"])
@pytest.mark.parametrize("end", ["?api-key=s3cret-4711", "?", "#s3cret-4711", "/v1?a=b#c"])
def test_a_base_url_has_no_query(provider: str, end: str) -> None:
    """It could not work, and a key in it would be shown."""
    profile = {"provider": provider, "model": "m", "base_url": f"https://gw.example{end}"}
    variables = {f"ANSWERBUS_PROFILES__HOUSE__{key}": text for key, text in profile.items()}

    with pytest.raises(SetUpError, match="api_key_env") as raised:
        load(None, variables)

    assert "profiles.house" in str(raised.value)
    assert "s3cret" not in str(raised.value)


@pytest.mark.parametrize("name", ["", "night shift", "a" * 101, "n\u202e"])
def test_a_name_that_is_recorded_is_a_plain_one(name: str) -> None:
    with pytest.raises(ValueError, match="pattern"):
        Settings.model_validate({"console": {"operators": {name: "NIGHT"}}})


@pytest.mark.parametrize("number", ["inf", "nan", "-inf", "1e400"])
@pytest.mark.parametrize(
    "setting",
    [
        "worker.retry_first_s = {}",
        "worker.retry_factor = {}",
        "worker.retry_max_s = {}",
        "worker.drain_s = {}",
        "worker.stuck_after_s = {}",
        "ids.remember_s = {}",
        "accounts.remember_s = {}",
        "profiles.default.timeout_s = {}",
        "profiles.default.price = {{input_usd = {}, output_usd = 1.0}}",
        "profiles.default.price = {{input_usd = 1.0, output_usd = {}}}",
    ],
)
def test_no_number_is_infinite(tmp_path: Path, setting: str, number: str) -> None:
    path = tmp_path / "answerbus.toml"
    profile = 'profiles.default.provider = "openai"\nprofiles.default.model = "m"\n'
    path.write_text(profile + setting.format(number))

    with pytest.raises(SetUpError, match=setting.partition(" ")[0]):
        load(path, {})


def test_a_token_costs_a_dollar_at_most(tmp_path: Path) -> None:
    path = tmp_path / "answerbus.toml"
    profile = '[profiles.default]\nprovider = "openai"\nmodel = "m"\n'
    path.write_text(profile + "price = {input_usd = 1e308, output_usd = 0.0}\n")

    with pytest.raises(SetUpError, match=r"profiles\.default\.price\.input_usd"):
        load(path, {})


def test_a_file_may_begin_with_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "answerbus.toml"
    path.write_text("[kafka]\npartitions = 6\n", encoding="utf-8-sig")

    assert load(path, {}).kafka.partitions == 6
