"""What the verdict on a training says: what was measured, what would gain how much, or nothing."""

from cases import each
from hypothesis import given
from hypothesis import strategies as st

from dfgen.explain.speed import Remedy, Waiting, gains, verdict
from dfgen.loading.metrics import STAGES

ALIASED = Remedy("Image(antialias=False)", {"resize": 0.2})
UNSCALED = Remedy("scale=None", {"scale": 0.0})
SMALLER = Remedy("smaller files", {"decode": 0.25, "resize": 0.25})


def waiting(waited, steps=100.0, *, cpu=None, worked=None, consumer_wait=None, **given):
    """Steps of 100 s; given by stage are the workers' seconds; `worked`: those on a CPU."""
    stages = {name: float(given.pop(name, 0)) for name in STAGES}
    busy = sum(stages.values())
    worked = busy - stages["read"] / 2 if worked is None else worked
    handed = waited if consumer_wait is None else consumer_wait
    seconds = stages | {"idle": 0.0, "cpu": worked, "consumer_wait": handed}
    given = {"workers": 2, "cpus": 2} | given
    cpu = steps - waited + worked if cpu is None else cpu
    return Waiting(waited, steps, seconds, min(cpu, given["cpus"] * steps), **given)


DECODING = {"decode": 140, "resize": 50, "read": 10, "cpus": 4}

# What was measured, and the remedies there are -> what is advised.
SITUATIONS = {
    "2.8 % waiting": (waiting(2.8, decode=190), [SMALLER], []),
    "30 % of two seconds": (waiting(0.6, 2, decode=4), [SMALLER], ["smaller files (up to 0.6 s)"]),
    "decoding, 2 workers of 4 CPUs": (
        waiting(80, **DECODING), [], ["workers=4, as many as CPUs (up to 46.2 s)"]
    ),
    "decoding, as many workers as CPUs": (waiting(80, **DECODING | {"cpus": 2}), [], []),
    "more workers than CPUs": (waiting(80, decode=390, workers=4, worked=180, cpus=2), [], []),
    "resizing that filters": (
        waiting(80, decode=100, resize=95), [ALIASED], ["Image(antialias=False) (up to 38.0 s)"]
    ),
    "resizing that hardly matters": (waiting(80, decode=195, resize=3), [ALIASED], []),
    "files too large": (
        waiting(80, decode=150, resize=45), [SMALLER], ["smaller files (up to 73.1 s)"]
    ),
    "scaling": (waiting(80, decode=100, scale=95), [UNSCALED], ["scale=None (up to 47.5 s)"]),
    "reading, from a network": (
        waiting(90, read=180, decode=18, worked=20, cpus=2), [],
        [
            "faster storage (up to 85.0 s)",
            "workers=8, as reading needs no CPU (up to 75.0 s)",
        ],
    ),
    "reading, as many workers as help": (
        waiting(90, read=720, decode=72, worked=90, workers=8, cpus=2), [],
        ["faster storage (up to 50.0 s)"],
    ),
    "a first epoch from a cold disk": (waiting(2, read=20, start=300, began="epoch"), [], []),
    "a transform that holds the lock": (
        waiting(80, transform=150, decode=45, worked=90, cpus=4), [],
        ["use_multiprocessing=True if the transform holds Python's lock (up to 53.8 s)"],
    ),
    "small files, of which one thread makes more than two": (
        waiting(80, decode=60, read=38, worked=95, workers=1, cpus=2, resting=1), [],
        ["use_multiprocessing=True, as more threads are slower (up to 42.5 s)"],
    ),
    "a transform that does not": (waiting(80, transform=150, decode=45, worked=190), [], []),
    "other programs have the CPUs": (
        waiting(80, decode=150, resize=45, worked=90), [ALIASED],
        ["Image(antialias=False) (up to 18.5 s)"],
    ),
    "a transform in processes": (
        waiting(80, transform=150, decode=45, processes=True, cpu=30, worked=190, cpus=4), [],
        ["workers=4, as many as CPUs (up to 45.0 s)"],
    ),
    "a transform of processes, and a GPU": (
        waiting(80, transform=150, decode=45, processes=True, cpu=30, accelerated=True), [],
        ["Keras layers in the model for the transform (up to 62.5 s)"],
    ),
    "a batch_transform": (waiting(50, batch_transform=100, decode=90), [], []),
    "a batch_transform, and a GPU": (
        waiting(50, batch_transform=100, decode=90, accelerated=True), [],
        ["Keras layers in the model for the batch_transform (up to 50.0 s)"],
    ),
    "no workers": (
        waiting(80, decode=70, resize=10, workers=0, cpus=4, worked=100, cpu=100), [],
        ["workers=4, as many as CPUs (up to 75.0 s)"],
    ),
    "no workers, one CPU": (
        waiting(80, decode=70, resize=10, workers=0, cpus=1, worked=100, cpu=100), [], []
    ),
    "bursts": (
        waiting(20, decode=100, cpu=120), [SMALLER],
        ["max_queue_size=40, as batches come in bursts (up to 20.0 s)"],
    ),
    "bursts, and too little memory": (
        waiting(20, decode=100, depth=2, cpu=120), [],
        ["limits=dfgen.Limits(memory=...) of more, which now allows 2 of max_queue_size=10 batches "
         "(up to 20.0 s)"],
    ),
    "bursts of processes": (waiting(20, decode=100, processes=True, cpu=20), [], []),
    "numbers alone": (waiting(40, table=3, batches=10_000, consumer_wait=1), [], []),
    "a model that has the CPUs": (waiting(40, decode=190, cpu=200, cpus=2, workers=1), [], []),
}  # fmt: skip
NO_STEPS = Waiting(0, 0, dict.fromkeys((*STAGES, "cpu", "consumer_wait"), 0.0))


@each("what", SITUATIONS)
def test_advice_is_what_would_gain_a_clear_amount_and_no_more(what):
    measured, remedies, advice = SITUATIONS[what]
    found = [f"{gain.what} (up to {gain.seconds:.1f} s)" for gain in gains(measured, remedies)]
    assert found == advice


WORDS = {
    "2.8 % waiting": "2.8% of the time (2.8 of 100.0 s of steps): nothing to gain.",
    "30 % of two seconds": (
        "30.0% of the time (0.6 of 2.0 s of steps): too short to tell what would help."
    ),
    "one step": "0.0% of the time (0.0 of 0.0 s of steps): too short to tell what would help.",
    "a first epoch from a cold disk": (
        "2.0% of the time (2.0 of 100.0 s of steps), after 300.0 s in its first epoch: nothing to "
        "gain."
    ),
    "decoding, 2 workers of 4 CPUs": (
        "80.0% of the time (80.0 of 100.0 s of steps). 2 workers were busy 100% of it: decode 70%, "
        "resize 25%, read 5%. Possible savings: workers=4, as many as CPUs (up to 46.2 s)."
    ),
    "decoding, as many workers as CPUs": (
        "80.0% of the time (80.0 of 100.0 s of steps). 2 workers were busy 100% of it: decode 70%, "
        "resize 25%, read 5%. All 2 CPUs are in use: no setting would gain 3%."
    ),
    "bursts of processes": (
        "20.0% of the time (20.0 of 100.0 s of steps). 2 processes were busy 50% of it: decode "
        "100%. No setting would gain 3%."
    ),
    "numbers alone": (
        "40.0% of the time (40.0 of 100.0 s of steps). 2 workers were busy 2% of it: table 100%. "
        "Their batches were ready: the wait is for the hand-over. Larger batches reduce this cost "
        "(4.0 ms a batch)."
    ),
    "no workers, one CPU": (
        "80.0% of the time (80.0 of 100.0 s of steps). The calling thread, as workers=0, was busy "
        "80% of it: decode 88%, resize 12%. The one CPU is in use: no setting would gain 3%."
    ),
}


@each("what", WORDS)
def test_the_verdict_in_words(what):
    measured, remedies, _ = SITUATIONS.get(what, (NO_STEPS, [], []))
    assert verdict(measured, remedies) == f"training waited for its input {WORDS[what]}"


SECONDS = st.floats(0, 1e4)


@given(
    st.floats(0, 1), st.floats(0.1, 1e5), st.lists(SECONDS, min_size=9, max_size=9), SECONDS,
    st.integers(0, 64), st.integers(1, 64), st.booleans(), st.integers(1, 10),
)  # fmt: skip
def test_no_gain_is_larger_than_the_wait(
    share, steps, seconds, cpu, workers, cpus, processes, deep
):
    names = (*STAGES, "cpu", "consumer_wait")
    measured = dict(zip(names, seconds, strict=True))
    one = Waiting(share * steps, steps, measured, cpu, 1, workers, processes, cpus, deep)
    found = gains(one, [ALIASED, UNSCALED, SMALLER])
    assert all(gain.seconds <= one.waited * (1 + 1e-9) for gain in found)
    assert not found or one.share >= 0.03
    assert verdict(one, [ALIASED]).endswith(".")
