"""Ctrl-C at any moment of `fit`: the next `fit` gets each row once, and no process is left."""

import random
import threading

import pytest
from interrupting import Lines, send
from processes_of import children
from watching import order, trained_watcher

import dfgen
from dfgen.loading.workers.threads import Threads, Worker

ROWS = 40
LINES, SECONDS = 2500, 0.4
"""How far two epochs come, in lines of dfgen in the main thread, and in time."""


def is_interrupted(model, seq, at_line, draws):
    """Train two epochs, and say whether they were interrupted before they ended."""
    timer = threading.Timer(draws.random() * SECONDS, send)
    try:
        try:
            if at_line:
                with Lines(draws.randrange(1, LINES)):
                    model.fit(seq, epochs=2, verbose=0)
            else:
                timer.start()
                model.fit(seq, epochs=2, verbose=0)
        finally:
            timer.cancel()
            if timer.ident:  # it may have begun to send
                timer.join()
    except KeyboardInterrupt:
        return True
    return False


# what TensorFlow frees meanwhile may be what is interrupted, which Python can only print
@pytest.mark.filterwarnings("ignore:Exception ignored in:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    ("moments", "processes"),
    [
        pytest.param(8, False, marks=pytest.mark.slow),
        (2, True),
        pytest.param(200, False, marks=[pytest.mark.slow, pytest.mark.alarm(900)]),
        pytest.param(100, True, marks=[pytest.mark.slow, pytest.mark.alarm(1800)]),
    ],
)
@pytest.mark.timeout(2000)
def test_fault_94_after_an_interrupt_at_any_moment_of_fit_the_next_one_gets_each_row_once(
    frame, moments, processes
):
    draws = random.Random(moments)
    options = {"y": "label", "batch_size": 8, "image_size": (4, 4), "workers": 2}
    df, model, interrupted = frame(ROWS), trained_watcher(), 0
    for moment in range(moments):
        with dfgen.Sequence(df, use_multiprocessing=processes, **options) as seq:
            at_line = moment % 2
            interrupted += is_interrupted(model, seq, at_line, draws) and at_line
            model.forget()
            epoch = seq.epoch
            model.fit(seq, epochs=1, verbose=0)
            assert model.seen() == order(ROWS, epoch), moment
            assert (seq.receipt.missing, seq.receipt.repeated) == (0, 0), moment
        assert not children(), moment
    assert interrupted > moments / 4


def test_fault_94_a_thread_whose_start_was_interrupted_is_told_to_end_too(monkeypatch):
    start = threading.Thread.start

    def interrupted(thread):
        start(thread)
        raise KeyboardInterrupt

    threads, before = Threads(1, Worker), {*threading.enumerate()}
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            threads.submit(lambda worker: None)
    [started] = {*threading.enumerate()} - before
    threads.close()
    started.join(timeout=30)
    assert not started.is_alive()
