"""One family of errors: each message says what is wrong, what was got, what is allowed, and the way out.

Everything here is the user's to mend. The command line prints such an error as one line and ends with exit
code 2; any other exception is our fault and keeps its traceback.
"""


class LacunaError(Exception):
    """Something the user can mend."""


class CorpusError(LacunaError, ValueError):
    """Parallel text that cannot be read, or is empty after cleaning."""


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


class NotFoundError(LacunaError, LookupError):
    """A memory or a sentence of this name or number does not exist."""


class IndexingError(LacunaError):
    """An index that cannot be built, opened or searched."""


class CombinerError(LacunaError):
    """A combiner that cannot be saved, opened or trusted, or that belongs to another model."""


class CalibrationError(LacunaError):
    """A calibration that cannot be saved, opened or trusted, or that belongs to another model."""


class EvaluationError(LacunaError, ValueError):
    """Translations that cannot be compared with their references."""


class ReportError(LacunaError, ValueError):
    """An experiment that cannot be shown: files missing, of another format, or not fit to be drawn."""


class MissingExtra(LacunaError, ImportError):  # noqa: N818 - named for what the user must install
    """An optional dependency that is not installed."""


class LacunaWarning(UserWarning):
    """Something the user should know although the work goes on."""
