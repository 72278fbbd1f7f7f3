"""What Prometheus may know: counts and times, never texts. Each app has a registry of its own."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The measurements of one app.

    :param waiting: Says how many sentences wait for the model.
    """

    def __init__(self, waiting: Callable[[], int]) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            "lacuna_requests", "Requests answered, by route and status.", ["route", "status"], registry=self.registry
        )
        self.seconds = Histogram(
            "lacuna_request_seconds", "Time until a request was answered.", ["route"], registry=self.registry
        )
        self.sentences = Counter("lacuna_sentences", "Sentences through the model.", ["kind"], registry=self.registry)
        self.batch_sentences = Histogram(
            "lacuna_batch_sentences", "Sentences in a batch.", buckets=_BATCH_SIZES, registry=self.registry
        )
        self.batch_seconds = Histogram("lacuna_batch_seconds", "Time of a batch.", registry=self.registry)
        gauge = Gauge("lacuna_waiting_sentences", "Sentences that wait for the model.", registry=self.registry)
        gauge.set_function(waiting)

    def text(self) -> bytes:
        """Give all measurements in Prometheus' format."""
        return generate_latest(self.registry)
