"""Processes that train together: they compare themselves, and leave together."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import reduce
from importlib.util import find_spec
from pathlib import Path

import keras
import pandas as pd
import pytest
from killing import light_model
from one_rank import EPOCHS, ROWS
from watching import KERAS

import dfgen
from dfgen.errors import ArgumentError, DfgenError, RankError
from dfgen.loading.receipts import Receipt
from dfgen.training.ranks import _shown, alike, compare


def total_receipts(folder, count):
    """Return the sums of the receipts of so many processes, one for each epoch."""
    parts = []
    for index in range(count):
        lines = (folder / f"receipts-{count}-{index}.jsonl").read_text().splitlines()
        found = [json.loads(line) | {"draws": ()} for line in lines]
        parts.append({one["epoch"]: Receipt(**one) for one in found})
    epochs = sorted(set.intersection(*map(set, parts)))
    return [reduce(Receipt.__add__, [part[epoch] for part in parts]) for epoch in epochs]


SCRIPT = Path(__file__).parents[1] / "one_rank.py"
SECONDS = 150  # that processes may take; they take about ten


TOLD = {"shard": [0, 2], "seed": 0}


@pytest.mark.parametrize(
    ("others", "error", "word"),
    [
        ([({**TOLD, "shard": [1, 2]}, None)], None, ""),
        ([({**TOLD, "shard": [1, 2], "seed": 4}, None)], ArgumentError, "seed: 0 on rank 0, 4"),
        ([(TOLD, None)], ArgumentError, "shard="),
        ([({**TOLD, "shard": [1, 2]}, "no rows")], RankError, "rank 1 does not begin: no rows"),
    ],
)
def test_processes_compare_what_they_are_about_to_do(monkeypatch, others, error, word):
    def gathered(mine):
        return [mine, *({"told": told, "refusal": refusal} for told, refusal in others)]

    monkeypatch.setattr("dfgen.training.ranks.gathered", gathered)
    if error is None:
        compare(TOLD)
        return
    with pytest.raises(error, match=word):
        compare(TOLD)


@pytest.fixture(params=["torch", "jax"])
def backend(request):
    if find_spec(request.param) is None:
        pytest.skip(f"{request.param} is not installed: make test-backends installs it")
    return request.param


class Training:
    """Real processes that train together; those that still run are killed in the end."""

    def __init__(self, backend, folder, count=2, **options):
        server = socket.create_server(("127.0.0.1", 0))
        port = server.getsockname()[1]
        server.close()
        kept = {k: v for k, v in os.environ.items() if k not in ("RANK", "WORLD_SIZE", "TF_CONFIG")}
        options = json.dumps(options)
        self.processes = [
            subprocess.Popen(
                [
                    sys.executable,
                    SCRIPT,
                    str(n),
                    str(count),
                    str(port),
                    folder,
                    options,
                ],
                env={**kept, "KERAS_BACKEND": backend},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                start_new_session=True,
            )
            for n in range(count)
        ]
        self._alarm = threading.Timer(SECONDS, self.kill)
        self._alarm.start()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self._alarm.cancel()
        self.kill()
        for process in self.processes:
            process.wait()
            process.stdout.close()

    def kill(self):
        for process in self.processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def wait_for(self, line):
        for process in self.processes:
            assert any(line == each.strip() for each in process.stdout), f"no {line!r}"

    def ended(self):
        """Return exit codes and texts; when one fails the others end, as under torchrun."""
        with ThreadPoolExecutor(len(self.processes)) as pool:
            texts = list(pool.map(self._text, self.processes))
        return [process.wait() for process in self.processes], texts

    def _text(self, process):
        text = process.stdout.read()
        if process.wait():
            threading.Timer(10, self.kill).start()
        return text

    def found(self):
        """What those that end well have told."""
        codes, texts = self.ended()
        assert not any(codes), "\n".join(texts)
        return [json.loads(text.splitlines()[-1]) for text in texts]


def trained(*given, **options):
    with Training(*given, **options) as training:
        return training.found()


SHARDS = {"shard": [0, 2]}, "shard: [0, 2] on ranks 0 and 1."
BATCHES = {"1": {"batch_size": 72}}, "batch_size: 12 on rank 0, 72 on rank 1."
ROWS_DIFFER = {"1": {"rows": 36}}, "rows: 48 on rank 0, 36 on rank 1; ids: "
SEEDS = (
    {"1": {"seed": 4, "keras_seed": 3, "version": "0.1"}},
    f"seed: 0 on rank 0, 4 on rank 1; keras_seed: 1 on rank 0, 3 on rank 1; version of dfgen: "
    f"{dfgen.__version__} on rank 0, 0.1 on rank 1",  # of old Kerases on torch weights differ, too
)


def refused(backend, folder, options, expected):
    if backend == "jax" and "batch_size" not in expected:
        pytest.skip("the same on each backend, but for what JAX refuses by itself")
    with Training(backend, str(folder), **options) as training:
        codes, texts = training.ended()
    assert codes == [1, 1], texts
    assert expected in texts[0], texts
    assert not any("step 1\n" in text for text in texts)


@pytest.mark.backend
def test_fault_77_processes_compare_versions_and_how_rows_are_made(frame, monkeypatch):
    df = frame(2)

    def told(scale):
        with dfgen.Sequence(df, dfgen.Image(size=(4, 4), scale=scale), "label", workers=0) as seq:
            return alike(light_model(), seq._loader)

    plain = told("0..1")
    assert told("0..1") == plain
    monkeypatch.setattr(dfgen, "__version__", "0.1")
    other = {name: each for name, each in told("-1..1").items() if each != plain[name]}
    assert other == {"version of dfgen": "0.1", "scale of 'image'": "'-1..1'"}


def test_fault_77_equal_sets_are_the_same_in_whatever_order_a_process_has_them():
    for kind in (set, frozenset):
        one, other = kind([0, 8]), kind([8, 0])
        assert repr(one) != repr(other) and _shown(one) == _shown(other)


@pytest.mark.backend
@pytest.mark.filterwarnings("ignore:shard=.* makes a part of each batch, but nothing connects")
def test_fit_tells_the_others_its_order_its_part_and_why_it_does_not_begin(frame, monkeypatch):
    told = []
    monkeypatch.setattr("dfgen.training.keras_data.connected", lambda: (0, 2))
    monkeypatch.setattr("dfgen.training.keras_data.compare", lambda *given: told.append(given))
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(2)])
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    given = {"image_size": (4, 4), "batch_size": 4, "workers": 0, "seed": 1, "shard": (0, 2)}
    for more in ({}, {"seed": 2, "shard": (1, 2)}, {"batch_size": 2}):
        with dfgen.Sequence(frame(8), y="label", **{**given, **more}) as seq:
            model.fit(seq, verbose=0)
    with dfgen.Sequence(frame(8), y="label", **given) as seq:
        images = keras.Input((4, 4, 3))
        inputs = [images, keras.Input((1,))]
        both = keras.layers.Concatenate()([keras.layers.Flatten()(images), inputs[1]])
        wrong = keras.Model(inputs, both)
        wrong.compile("sgd", "mse")
        with pytest.raises(DfgenError) as caught:
            wrong.fit(seq, verbose=0)
    (first, _), (other, _), (small, _), (_, why) = told
    assert why == str(caught.value) and [refusal for _, refusal in told[:3]] == [None] * 3
    assert first["shard"] == (0, 2) and other["shard"] == (1, 2)
    assert {name for name in first if first[name] != other[name]} == {"shard", "seed"}
    assert {name for name in first if first[name] != small[name]} == {"batch_size"}
    assert not {"receipt", "skipped"} & first.keys()


@pytest.mark.slow
class TestProcesses:
    def test_on_sigterm_all_leave_when_the_next_backup_is_due(self, backend, tmp_path):
        """Then they go on as if nothing had been, with receipts of their own and in all."""
        given = backend, str(tmp_path)
        for name in ("whole", "one"):
            (tmp_path / name).mkdir()
        whole = trained(backend, str(tmp_path / "whole"))
        (one,) = trained(backend, str(tmp_path / "one"), count=1)
        with Training(*given, **{"1": {"signals_after": 4}}) as training:
            codes, texts = training.ended()
        assert codes == [143, 143], texts
        saved = f"dfgen: SIGTERM; saved to {tmp_path / 'backup'}"
        assert all(saved in text for text in texts), texts
        assert trained(*given) == whole
        assert [process["rows"] for process in whole] == [ROWS // 2] * 2
        receipts = total_receipts(tmp_path, 2)
        assert receipts[-1].digest == one["digest"]
        assert [receipt.rows for receipt in receipts] == [ROWS] * EPOCHS

    @pytest.mark.parametrize("counts", [(2, 1, 3), (1, 2, 4)], ids=str)
    def test_killed_twice_others_go_on_in_other_batches_with_each_row_once(
        self, backend, tmp_path, counts
    ):
        """The second epoch is of one, then of another, then of a third number of processes."""
        sizes = (12, 18, 9) if counts[-1] == 3 else (12, 16, 20)
        kills = 6, 2, None
        for count, size, kill in zip(counts, sizes, kills, strict=True):
            options = {"batch_size": size, "died_after": kill, "save_freq": 1}
            with Training(backend, str(tmp_path), count, **options) as training:
                if kill is None:
                    found = training.found()
                    continue
                codes, texts = training.ended()
                assert -signal.SIGKILL in codes, texts
                assert 0 not in codes, texts
        assert {json.dumps(process["weights"]) for process in found} == {
            json.dumps(found[0]["weights"])
        }
        receipt = total_receipts(tmp_path, counts[-1])[-1]
        table = pd.DataFrame({"id": range(ROWS), "n": 0.0})
        with dfgen.Sequence(table, "n", workers=0) as seq:
            order = seq._loader.order
        assert receipt.digest == f"{order.digest_before(2, receipt.rows):032x}"
        left = ROWS % sizes[-1]  # of an epoch that is of this size alone
        assert (receipt.epoch, receipt.rows, receipt.left_out) == (2, ROWS - left, left)
        assert (receipt.missing, receipt.repeated) == (0, 0)

    def test_a_folder_of_backups_that_they_do_not_share_is_refused(self, backend, tmp_path):
        own = {str(n): {"folder": str(tmp_path / f"backup-{n}")} for n in range(2)}
        with Training(backend, str(tmp_path), failed_after=5, **own) as training:
            codes, texts = training.ended()
        assert 0 not in codes, texts
        with Training(backend, str(tmp_path), **own) as training:
            codes, texts = training.ended()
        assert 0 not in codes, texts
        assert all("see other backups in" in text for text in texts), texts
        assert all("epoch 1 after 3 steps" in text for text in texts)
        assert all("no backup on rank 1" in text for text in texts)

    @pytest.mark.parametrize("wrong", [SHARDS, BATCHES], ids=str)
    def test_wrong_set_ups_are_refused_before_the_first_step(self, backend, tmp_path, wrong):
        refused(backend, tmp_path, *wrong)

    def test_fault_75_other_rows_on_a_rank_are_refused_before_the_first_step(
        self, backend, tmp_path
    ):
        refused(backend, tmp_path, *ROWS_DIFFER)

    def test_fault_76_other_seeds_and_versions_on_a_rank_are_refused_before_the_first_step(
        self, backend, tmp_path
    ):
        refused(backend, tmp_path, *SEEDS)

    def test_without_a_distribution_jax_would_train_two_models(self, backend, tmp_path):
        if backend == "torch":
            pytest.skip("torch has none before Keras 3.16")
        with Training(backend, str(tmp_path), distributes=False) as training:
            codes, texts = training.ended()
        assert codes == [1, 1], texts
        assert all("ArgumentError: keras.distribution is not set" in text for text in texts), texts

    def test_without_a_seed_of_keras_models_on_torch_differ(self, backend, tmp_path):
        if backend == "jax" or KERAS >= (3, 16):
            pytest.skip("there the first one's are taken")
        with Training(backend, str(tmp_path), keras_seed=None) as training:
            codes, texts = training.ended()
        assert codes == [1, 1], texts
        assert all("weights: " in text and "set_random_seed(0)" in text for text in texts), texts
