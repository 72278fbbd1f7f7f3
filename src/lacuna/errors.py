"""All errors that a user can fix. Each message says what is wrong, the value received, what is allowed, and a remedy.

A message names parameters, at its beginning (``budget: got 0``) or in backticks, never options of a verb: the command
line prints it as one line, with options instead (:mod:`lacuna.cli.error_text`), and exits with code 2. Any other
exception is a bug and keeps its traceback.
"""

from collections.abc import Iterator
from contextlib import contextmanager


class LacunaError(Exception):
    """An error that the user can fix."""


class ClusterError(LacunaError):
    """A Dask cluster that cannot be reached or used, or that was lost."""


class CorpusError(LacunaError, ValueError):
    """Parallel text that cannot be read, or is empty after cleaning."""


class DocumentError(LacunaError, ValueError):
    """A file that cannot be translated: malformed, of an unknown format or encoding, or too large."""


class FormatError(CorpusError, DocumentError):
    """A file that is not of its format: it can be neither read as a corpus nor translated as a document."""


class GlossaryError(LacunaError, ValueError):
    """A glossary cannot be read, or contradicts itself."""


class FetchError(LacunaError):
    """Domain data that cannot be fetched: unknown name, unknown language, download or checksum failure."""


class ModelError(LacunaError, ValueError):
    """A model that cannot be loaded, or that cannot do what was asked of it."""


class SettingError(LacunaError, ValueError):
    """A setting outside what is allowed."""


class TrainingError(LacunaError):
    """Training that cannot start, or cannot go on from what is on disk."""


class StoreError(LacunaError):
    """A store that cannot be built, opened or trusted, or that belongs to another model."""


class LockedError(StoreError):
    """A memory that another process is editing, or a folder that it fills."""


class NotFoundError(LacunaError, LookupError):
    """A memory or a sentence of this name or number does not exist."""


class IndexingError(LacunaError):
    """An index that cannot be built, opened or searched."""


class UnavailableError(LacunaError):
    """A memory on a server that does not answer, or not in time."""


class CombinerError(LacunaError):
    """A combiner that cannot be saved, opened or trusted, or that belongs to another model."""


class CalibrationError(LacunaError):
    """A calibration that cannot be saved, opened or trusted, or that belongs to another model."""


class DomainError(LacunaError):
    """A domain that cannot be made, opened or trusted."""


class EvaluationError(LacunaError, ValueError):
    """Translations that cannot be compared with their references."""


class ReportError(LacunaError, ValueError):
    """An experiment that cannot be shown: files missing, of another format, or not fit to be drawn."""


class MissingExtra(LacunaError, ImportError):  # noqa: N818 - named for what the user must install
    """An optional dependency that is not installed."""


@contextmanager
def needs_extra(extra: str, purpose: str) -> Iterator[None]:
    """Turn a failed import inside the block into an error that names the extra to install.

    :param extra: Name of the extra in ``pyproject.toml``.
    :param purpose: What the package is needed for, as the subject of a sentence: ``"drawing figures"``.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("lacuna"):  # a mistake of ours, not a missing package
            raise
        raise MissingExtra(f'{purpose} needs the package {error.name}; pip install "lacuna-mt[{extra}]"') from error


class LacunaWarning(UserWarning):
    """Something the user should know; the work continues."""
