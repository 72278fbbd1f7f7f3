"""The batcher: no text is lost or mixed up, and texts of equal keys share a batch."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event, current_thread

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lacuna.errors import SettingError
from lacuna.serving.batching import Batcher
from lacuna.serving.limits import Overloaded


class Recorder:
    """Answers KEY:TEXT, writes down every batch, and does nothing before it may."""

    def __init__(self) -> None:
        self.go, self.begun = Event(), Event()
        self.batches: list[tuple[str, list[str]]] = []

    def __call__(self, key: str, texts: list[str]) -> list[str | Exception]:
        self.begun.set()
        assert self.go.wait(60)
        self.batches.append((key, texts))
        return [f"{key}:{text}" for text in texts]


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    recorder = Recorder()
    yield recorder
    recorder.go.set()


def batcher_of(recorder: Recorder, *, texts: int = 4, size: int = 100, waiting: int = 100) -> Batcher[str, str]:
    return Batcher(recorder, texts=texts, size=size, waiting=waiting)


@given(
    requests=st.lists(st.tuples(st.sampled_from("abc"), st.lists(st.text("xyä", max_size=8), max_size=5)), max_size=8),
    texts=st.integers(1, 4),
    size=st.integers(1, 12),
)
def test_everybody_gets_their_own_answers_within_the_budget(
    requests: list[tuple[str, list[str]]], texts: int, size: int
) -> None:
    recorder = Recorder()
    batcher = batcher_of(recorder, texts=texts, size=size)
    futures = [batcher.submit(key, some) for key, some in requests]
    recorder.go.set()
    batcher.close()
    for (key, some), promised in zip(requests, futures, strict=True):
        assert [future.result(0) for future in promised] == [f"{key}:{text}" for text in some]
    for _, batch in recorder.batches:
        assert len(batch) <= texts
        assert len(batch) == 1 or sum(len(text.encode()) for text in batch) <= size


def test_equal_keys_go_together_and_the_oldest_first(recorder: Recorder) -> None:
    batcher = batcher_of(recorder)
    batcher.submit("a", ["1"])
    assert recorder.begun.wait(60)  # from here on everything waits
    for key, text in (("b", "2"), ("a", "3"), ("b", "4"), ("a", "5")):
        batcher.submit(key, [text])
    recorder.go.set()
    batcher.close()
    assert recorder.batches == [("a", ["1"]), ("b", ["2", "4"]), ("a", ["3", "5"])]


def test_requests_take_turns(recorder: Recorder) -> None:
    batcher = batcher_of(recorder, texts=2)
    batcher.submit("a", ["0"])
    assert recorder.begun.wait(60)
    batcher.submit("a", ["1", "2", "3", "4", "5"])
    batcher.submit("b", ["6", "7", "8"])
    batcher.submit("a", ["9"])
    recorder.go.set()
    batcher.close()
    # Whoever sends less is done earlier, with the same options as a long request or with others.
    assert recorder.batches[1:] == [
        ("a", ["1", "9"]),
        ("b", ["6", "7"]),
        ("a", ["2", "3"]),
        ("b", ["8"]),
        ("a", ["4", "5"]),
    ]


def test_who_gave_up_costs_nothing(recorder: Recorder) -> None:
    batcher = batcher_of(recorder)
    batcher.submit("a", ["1"])
    assert recorder.begun.wait(60)
    [dropped, kept] = batcher.submit("b", ["2", "3"])
    assert dropped.cancel()
    recorder.go.set()
    batcher.close()
    assert recorder.batches == [("a", ["1"]), ("b", ["3"])]
    assert kept.result(0) == "b:3"


def test_a_full_queue_takes_all_or_nothing(recorder: Recorder) -> None:
    batcher = batcher_of(recorder, waiting=3)
    batcher.submit("a", ["1"])
    assert recorder.begun.wait(60)
    batcher.submit("a", ["2", "3"])
    with pytest.raises(Overloaded, match="2 sentences are waiting, and the limit is 3"):
        batcher.submit("a", ["4", "5"])
    assert batcher.waiting == 2
    batcher.submit("a", ["4"])


def test_closing_finishes_what_waits_and_takes_no_more(recorder: Recorder) -> None:
    batcher = batcher_of(recorder)
    futures = batcher.submit("a", [str(n) for n in range(9)])
    recorder.go.set()
    batcher.close()
    assert [future.result(0) for future in futures] == [f"a:{n}" for n in range(9)]
    assert not batcher.accepts
    with pytest.raises(Overloaded, match="stopping"):
        batcher.submit("a", ["late"])


def test_errors_reach_who_asked_and_nobody_else() -> None:
    def work(key: str, texts: list[str]) -> list[str | Exception]:
        if key == "broken":
            raise SettingError("cannot be done")
        return [ValueError(text) if text == "bad" else text for text in texts]

    batcher: Batcher[str, str] = Batcher(work, texts=4, size=100, waiting=9)
    [good, bad, fine] = batcher.submit("a", ["good", "bad", "fine"])
    [lost] = batcher.submit("broken", ["x"])
    [after] = batcher.submit("a", ["after"])
    batcher.close()
    assert (good.result(0), fine.result(0), after.result(0)) == ("good", "fine", "after")
    assert isinstance(bad.exception(0), ValueError)
    assert isinstance(lost.exception(0), SettingError)


def test_functions_are_called_in_the_worker_before_waiting_texts(recorder: Recorder) -> None:
    batcher = batcher_of(recorder, texts=1)
    running = batcher.submit("a", ["1"])
    assert recorder.begun.wait(60)
    waiting = batcher.submit("a", ["2"])
    call = batcher.call(lambda: (current_thread().name, len(recorder.batches)))
    failing = batcher.call(lambda: 1 // 0)
    recorder.go.set()
    assert call.result(60) == ("lacuna-model", 1)
    with pytest.raises(ZeroDivisionError):
        failing.result(60)
    assert [future.result(60) for future in running + waiting] == ["a:1", "a:2"]
    batcher.close()
    with pytest.raises(Overloaded, match="stopping"):
        batcher.call(current_thread)
