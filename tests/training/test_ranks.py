"""Processes that train together: they compare themselves, leave together, and hear of a death."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
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
from dfgen.errors import DfgenError, RankError
from dfgen.loading.receipts import Receipt
from dfgen.training.ranks import Ranks, _answer, _call, _shown, alike, meet


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
NAMES = ["rank 0", "rank 1", "rank 2"]


@contextmanager
def lines(count):
    """The ranks of a training, here in threads, and the sockets of all but the first one."""
    pairs = [socket.socketpair() for _ in range(count - 1)]
    first = Ranks(0, NAMES[:count], {n + 1: pair[0] for n, pair in enumerate(pairs)})
    others = [Ranks(n + 1, NAMES[:count], {0: pair[1]}) for n, pair in enumerate(pairs)]
    try:
        yield [first, *others], [pair[1] for pair in pairs]
    finally:
        for one in [first, *others]:
            one.close()
        for pair in pairs:
            for each in pair:
                each.close()


def at_once(ranks, act):
    """What an act of each comes to, a value or the text of its error; all run at once."""

    def result(rank):
        try:
            return act(rank)
        except RankError as error:
            return str(error)

    with ThreadPoolExecutor(len(ranks)) as pool:
        return [*pool.map(result, ranks)]


class TestLines:
    def test_each_gets_what_all_gave_round_after_round(self):
        def act(rank):
            return [rank.gather("a", [rank.index, number]) for number in range(20)]

        with lines(3) as (ranks, _):
            expected = [[[rank, number] for rank in range(3)] for number in range(20)]
            assert at_once(ranks, act) == [expected] * 3

    def test_fault_73_one_that_dies_is_named_to_all_others_whether_they_wait_or_will(self, capfd):
        with lines(3) as ((first, second, third), sockets):
            with ThreadPoolExecutor(1) as pool:
                waits = pool.submit(at_once, [second], lambda rank: rank.gather("a", 1))
                sockets[1].sendall(b'["value", [')  # the third dies as it tells something
                sockets[1].shutdown(socket.SHUT_RDWR)
                found = [*waits.result(), *at_once([first, second], lambda r: r.gather("a", 1))]
            third.close()
        why = (
            "rank 2 has died, or left its fit by an error, which it shows. Run all processes "
            "again; with BackupAndRestore they go on from the last backup"
        )
        assert found == [why] * 3
        assert f"dfgen: {why}\n" in capfd.readouterr().err

    def test_fault_74_all_wait_for_one_that_is_slow_and_get_the_same(self):
        with lines(3) as (ranks, _), ThreadPoolExecutor(2) as pool:
            for number in range(5):
                early = [pool.submit(rank.gather, "a", [rank.index, number]) for rank in ranks[:2]]
                while not all(ranks[0]._given[each] for each in (0, 1)):
                    threading.Event().wait(0.001)  # the first two have given theirs
                assert not any(each.done() for each in early)
                last = ranks[2].gather("a", [2, number])
                assert [each.result() for each in early] == [last] * 2
                assert last == [[rank, number] for rank in range(3)]

    def test_one_that_has_ended_is_named_to_those_that_go_on(self, capfd):
        with lines(3) as (ranks, _):
            ranks[1].close()
            found = at_once([ranks[0], ranks[2]], lambda rank: rank.gather("a", 1))
        assert found == [found[0]] * 2
        assert found[0].startswith("rank 1 has ended its fit, and others have not: all must take")
        assert capfd.readouterr().err == ""

    def test_all_may_end_one_after_the_other(self, capfd):
        with lines(3) as (ranks, _):
            assert at_once(ranks, lambda rank: rank.gather("a", 1)) == [[1, 1, 1]] * 3
            for rank in ranks:
                rank.close()
        assert capfd.readouterr().err == ""

    def test_those_that_do_not_do_the_same_are_named(self):
        with lines(3) as (ranks, _):
            found = at_once(ranks, lambda rank: rank.gather("ab"[rank.index == 1], 1))
        assert (
            found
            == [
                "the processes do not do the same: a on ranks 0 and 2, b on rank 1. Give each of "
                "them the same program, callbacks and number of steps"
            ]
            * 3
        )

    def test_where_one_wants_to_leave_a_step_all_do(self):
        class Leaving:
            def __init__(self, wants):
                self.wants = wants

            def wanted(self):
                return self.wants

            def leave(self):
                pass

        with lines(2) as (ranks, _):
            for wants, expected in (([False, False], False), ([False, True], True)):
                held = [Leaving(each) for each in wants]
                for rank, each in zip(ranks, held, strict=True):
                    rank.may_leave(each.wanted, each.leave)
                left = at_once(ranks, lambda rank: rank.step((0, 1)) is not None)
                assert left == [expected] * 2


class TestMeeting:
    """Processes, here threads, that are about to train one model."""

    def met(self, monkeypatch, told, refusals=None):
        """Have all meet, with what they tell and why they do not begin; return what each gets."""
        count, own, given = len(told), threading.local(), {}
        both = threading.Barrier(count, timeout=SECONDS)

        def gathered(value):  # the backend does this in a training
            given[own.index] = json.dumps(value)
            both.wait()
            found = [json.loads(given[index]) for index in range(count)]
            both.wait()
            return found

        def act(index):
            own.index = index
            refusal = None if refusals is None else refusals[index]
            try:
                return meet(told[index], refusal)
            except DfgenError as error:
                return f"{type(error).__name__}: {error}"

        monkeypatch.setattr("dfgen.training.ranks.connected", lambda: (own.index, count))
        monkeypatch.setattr("dfgen.training.ranks.gathered", gathered)
        with ThreadPoolExecutor(count) as pool:
            return [*pool.map(act, range(count))]

    def test_those_that_tell_the_same_are_connected(self, monkeypatch):
        ranks = self.met(monkeypatch, [{"shard": (n, 3), "seed": 7} for n in range(3)])
        try:
            assert [one.index for one in ranks] == [0, 1, 2]
            found = at_once(ranks, lambda rank: rank.gather("a", rank.index))
            assert found == [[0, 1, 2]] * 3
            me = f" (process {os.getpid()} on {socket.gethostname()})"
            ranks[2].close()
            said = at_once(ranks[:2], lambda rank: rank.gather("a", 1))
            assert all(one.startswith(f"rank 2{me} has ended its fit") for one in said)
        finally:
            for one in ranks:
                one.close()
            for thread in [one for one in threading.enumerate() if one.name == "dfgen-ranks"]:
                thread.join(SECONDS)

    @pytest.mark.parametrize(
        ("told", "said"),
        [
            ([{"shard": None}, {"shard": (1, 2)}], "shard: None on rank 0, [1, 2] on rank 1. "),
            ([{"shard": (0, 2)}] * 2, "shard: [0, 2] on ranks 0 and 1. Give each its own part"),
            ([{"shard": (n, 4)} for n in (0, 1)], "shard: [0, 4] on rank 0, [1, 4] on rank 1. "),
            ([{"ids": "a"}, {"ids": "a"}, {"ids": "b"}], "ids: a on ranks 0 and 1, b on rank 2. "
             "Give all the same rows in the same order"),
            ([{"rows": 5}, {}], "rows: 5 on rank 0, None on rank 1. Make them the same on all"),
            ([dict.fromkeys("abcde", n) for n in (0, 1)],
             "; ".join(f"{name}: 0 on rank 0, 1 on rank 1" for name in "abcd") + ". Make them"),
        ],
    )  # fmt: skip
    def test_those_that_differ_are_refused_and_told_in_what(self, monkeypatch, told, said):
        found = self.met(monkeypatch, told)
        assert found == [found[0]] * len(told)
        assert found[0].startswith("ArgumentError: the processes that train together are not set")
        assert said in found[0]

    def test_why_one_does_not_begin_is_told_to_the_others(self, monkeypatch):
        told = [{"shard": (n, 3)} for n in range(3)]
        found = self.met(monkeypatch, told, [None, "its folder is full", None])
        why = f"RankError: rank 1 (process {os.getpid()} on {socket.gethostname()}) does not begin"
        assert found == [f"{why}: its folder is full", None, f"{why}: its folder is full"]

    def test_whoever_does_not_know_the_token_is_hung_up_on(self):
        with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
            waits = pool.submit(_answer, server, "right", 2)
            for said in (b"", b"GET / HTTP/1.1\n", b'["wrong", 1]\n', b'["right", 1, 2]\n'):
                with socket.create_connection(server.getsockname()) as stranger:
                    stranger.sendall(said)
                    stranger.shutdown(socket.SHUT_WR)
                    stranger.settimeout(SECONDS)
                    assert stranger.recv(1) == b""
            host, port = server.getsockname()
            first = {"host": "elsewhere", "addresses": [host], "port": port}
            with _call(1, "right", first) as line:
                found = waits.result()
                found[1].sendall(b"x")
                assert [*found] == [1] and line.recv(1) == b"x"
                found[1].close()
            for addresses, said in ([], "no address is known"), ([host], ":1: Connection ref"):
                with pytest.raises(OSError, match=said):
                    _call(1, "right", {**first, "addresses": addresses, "port": 1})


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
        """The exit codes and what was printed."""
        texts = [process.stdout.read() for process in self.processes]
        return [process.wait() for process in self.processes], texts

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
    monkeypatch.setattr("dfgen.training.data_adapter.connected", lambda: (0, 2))
    monkeypatch.setattr("dfgen.training.data_adapter.meet", lambda *given: told.append(given))
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
    def test_on_sigterm_all_leave_before_the_step_of_which_one_gets_no_batch(
        self, backend, tmp_path
    ):
        """Then they go on as if nothing had been, with receipts of their own and in all."""
        given = backend, str(tmp_path)
        for name in ("whole", "one"):
            (tmp_path / name).mkdir()
        whole = trained(backend, str(tmp_path / "whole"))
        (one,) = trained(backend, str(tmp_path / "one"), count=1)
        with Training(*given, **{"1": {"stuck_after": 5}}) as training:
            training.wait_for("step 5")
            for process in training.processes:
                process.send_signal(signal.SIGTERM)
            codes, texts = training.ended()
        assert codes == [143, 143], texts
        saved = f"dfgen: SIGTERM; saved to {tmp_path / 'backup'}, to go on from there"
        assert all(text.splitlines()[-1] == saved and "rank" not in text for text in texts), texts
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

    @pytest.mark.parametrize("dies", [0, 1])
    def test_fault_73_one_that_dies_ends_the_others_with_its_name(self, backend, tmp_path, dies):
        with Training(backend, str(tmp_path), **{str(dies): {"died_after": 5}}) as training:
            codes, texts = training.ended()
        name = f"dfgen: rank {dies} (process {training.processes[dies].pid} on "
        assert codes[dies] == -signal.SIGKILL
        # JAX, whose first process is gone, may abort the others itself
        assert codes[1 - dies] in (1, -signal.SIGABRT), texts
        assert name in texts[1 - dies], texts

    def test_a_folder_of_backups_that_they_do_not_share_is_refused(self, backend, tmp_path):
        own = {str(n): {"folder": str(tmp_path / f"backup-{n}")} for n in range(2)}
        with Training(backend, str(tmp_path), failed_after=5, **own) as training:
            codes, texts = training.ended()
        assert 0 not in codes, texts
        with Training(backend, str(tmp_path), **own) as training:
            codes, texts = training.ended()
        assert 0 not in codes, texts
        assert all("see other backups in" in text for text in texts), texts
        assert all("epoch 1 after 3 steps" in text and "none on rank 1" in text for text in texts)

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
