"""What an artifact says of itself beside its program: a JSON text that is read without the graph."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, cast

from trtdiag.calibration.facts import Quantizers
from trtdiag.engine.manifest_text import SHA256
from trtdiag.errors import ArtifactError
from trtdiag.files.typed_json import TypedJson
from trtdiag.options import CompileOptions, PartitionOptions, Precision

MEMBER = "trtdiag.json"
"""Its name among the extra files of the archive."""
NETWORK_MEMBER = "trtdiag_network_{}.base64"
"""The network of each engine, by its place in the order of execution; extra files can only hold text."""
REFIT_MEMBER = "trtdiag_refit.json"
"""How weights are made of the model's parameters, where it was compiled refittable: in files that had it as a text."""
REFIT_PACKED, REFIT_ZLIB = "trtdiag/refit.json.xz", "trtdiag/refit.json.zlib"
"""The same, compressed: in a file without weights it would be most of it.  The second where Python came without xz, and
in earlier files."""
TENSOR_MEMBER = "trtdiag/{}"
"""Each tensor that this rests on, and of a file without weights in engines the parameters; not among the extra files,
for torch reads those as text."""
SCHEMA = "trtdiag-artifact/1"


@dataclass(frozen=True)
class EngineEntry:
    """One engine: its buffer and the digest of its bytes, and that of its network's bytes where it was kept.

    Where the file has it without weights, also the digest of what is there.
    """

    buffer: str
    sha256: str
    network_sha256: str | None = None
    stripped_sha256: str | None = None

    def __post_init__(self) -> None:
        for digest in (self.sha256, self.network_sha256, self.stripped_sha256):
            if digest is not None and not SHA256.fullmatch(digest):
                raise ValueError(f"{digest!r} is no sha256")


@dataclass(frozen=True)
class Description:
    """What an artifact says of itself.

    Attributes:
        trtdiag: The version that saved it.
        torch: The torch that saved it.
        target: The TensorRT version that it was compiled for.
        engines: In the order of execution.
        options: What it was compiled with, as plain values; empty where that is not known.
        source: The file that it was compiled from, where it was one.
        build_s: What building its engines took, where that is known.
        weights: Where the weights of its engines are: ``inside``, ``once`` beside them, ``none``.
        quantizers: How it was quantized, where it was calibrated.
    """

    trtdiag: str
    torch: str
    target: str | None
    engines: tuple[EngineEntry, ...]
    options: Mapping[str, Any]
    source: str | None = None
    build_s: float | None = None
    weights: str = "inside"
    quantizers: Quantizers | None = None


_FORMS = TypedJson(
    keys={EngineEntry: {"network_sha256": "network", "stripped_sha256": "stripped"}},
    added={Description: ("build_s", "weights", "quantizers"), EngineEntry: ("stripped_sha256",)},
)


def description_to_text(description: Description) -> str:
    """The description as a JSON text."""
    return json.dumps({"schema": SCHEMA, **_FORMS.written(Description, description)}, indent=1, sort_keys=True)


def description_from_text(text: str, file: str) -> Description:
    """The description of ``description_to_text``.

    Raises:
        ArtifactError: ``artifact-version`` for one of another version, ``damaged-artifact``.
    """
    try:
        document = json.loads(text)
        schema = document["schema"]
        if schema != SCHEMA:
            raise ArtifactError(
                f"{file} was saved by another version of trtdiag",
                because=f"it is written as {str(schema)[:60]!r} by trtdiag {str(document.get('trtdiag'))[:60]};"
                f" this one reads {SCHEMA!r}",
                fix="load it with the trtdiag that saved it, or compile the program again with this one",
                reference="artifact-version",
            )
        return cast(Description, _FORMS.read(Description, document))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ArtifactError(
            f"the description in {file} cannot be read",
            because=f"{type(error).__name__}: {error}",
            fix="copy the file again from where it was saved, or compile the program again",
            reference="damaged-artifact",
        ) from error


_PLACES = ("engine_cache", "timing_cache", "runtime_cache")
"""Options that name places of the machine that compiled: a file does not tell who loads it where to write."""


def options_from_plain(plain: Mapping[str, Any]) -> CompileOptions | None:
    """The options of ``plain_options``, but for places; ``None`` where there are none.

    Raises:
        TypeError: An option is unknown; ValueError: a precision is; UserError: a value is not what its option takes.
    """
    if not plain:
        return None
    own = {name: value for name, value in plain.items() if name not in _PLACES}
    precision, partition = Precision(plain["precision"]), PartitionOptions(**plain["partition"])
    return CompileOptions(**{**own, "precision": precision, "partition": partition})


def plain_options(options: CompileOptions) -> dict[str, Any]:
    """Options as values that JSON can say; places are left out."""
    named = {name: value for name, value in asdict(options).items() if name not in _PLACES}
    return {**named, "precision": options.precision.value}
