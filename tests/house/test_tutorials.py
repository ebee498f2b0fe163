"""Each tutorial runs as written, on the files that it tells of, and what it trains has learnt."""

import re
from ast import literal_eval
from fnmatch import fnmatch
from importlib import import_module

import keras
import numpy as np
import pandas as pd
import pytest
from cases import each
from test_readme import TUTORIALS

import dfgen


@pytest.mark.slow
@pytest.mark.backend
def test_a_model_of_tags_finds_each_of_them_on_parts_it_never_saw(typed):
    names = typed("multi-label")
    parts = names["df"].groupby("split", observed=True)["part"].agg(set)
    assert not parts["train"] & parts["test"] and not parts["val"] & parts["test"]
    assert names["measured"]["auc"] > 0.8  # a guess has 0.5
    assert names["tuned"]["f1"].mean() > 0.65  # finding all tags on each sheet has 0.48
    assert names["tagged"]["id"].tolist() == names["rows"]["id"].tolist()


@pytest.mark.slow
@pytest.mark.backend
def test_diameters_of_coins_never_seen_are_nearer_than_their_mean(typed):
    names = typed("regression")
    assert len(names["error"]) == 96
    assert names["error"].mean() < 0.85 * names["guess"]


@pytest.mark.slow
@pytest.mark.backend
def test_rare_classes_are_found_once_they_are_balanced_or_weighted(typed):
    names = typed("imbalanced")
    plain, balance, weighted = names["recalls"].loc[names["rare"]].mean()
    assert balance > plain + 0.25 and weighted > plain + 0.1
    assert balance > 0.5  # a guess has 0.17


@pytest.mark.slow
@pytest.mark.backend
def test_folds_predict_every_row_once_and_find_labels_that_are_wrong(typed, photographs):
    with pytest.warns(UserWarning, match="Left out 2 files"):
        names = typed("cross-validation")
    assert len(names["rows"]) == 592 and names["rows"]["y_pred"].notna().all()
    assert names["df"].groupby("part", observed=True)["fold"].nunique().eq(1).all()
    assert names["by_fold"].mean() > 0.7  # a guess has 0.17
    true = pd.read_csv(photographs / "labels.csv", index_col="photo")["thing"]
    given = names["df"].set_index("id")["thing"].astype(str)
    wrong = {*given.index[given != true[given.index]]}
    assert len(wrong) == 6 and len(wrong & {*names["suspects"]["id"]}) >= 3
    assert len(names["suspects"]) < 592 / 6


@pytest.mark.slow
@pytest.mark.backend
def test_callbacks_keep_the_best_epoch_and_a_second_run_has_equal_weights(typed):
    names = typed("callbacks")  # which compares the weights
    log = names["log"]
    assert names["measured"]["loss"] == pytest.approx(log["val_loss"].min(), rel=1e-3)
    assert names["measured"]["accuracy"] > 0.7  # a guess has 0.17
    assert 4 < len(log) <= 20 and log["epoch"].tolist() == [*range(len(log))]


@pytest.mark.slow
def test_a_sum_on_small_photographs_agrees_with_their_pack_and_gives_the_table_of_3_tb(typed):
    names = typed("three-terabytes")
    rows = len(names["df"])
    assert names["small"]["rows"] == pytest.approx(rows)
    assert names["small"]["pixels"] == rows * 64 * 64 * 3
    assert 1 <= names["on_disk"] / names["small"]["pixels"] < 1.1
    assert names["way"](names["small"], 2 * names["small"]["epochs"]) == 'cache="memory"'
    page = (TUTORIALS / "three-terabytes.md").read_text("utf-8")
    for text, size in (("150 kB", 150e3), ("500 kB", 500e3), ("2 MB", 2e6)):
        large = names["plan"](3e12, size, rate=500)
        sizes = [f"{large[name] / 1e9:,.0f} GB" for name in ("pixels", "jpegs")]
        epochs = [f"{large[name]:.2f}" for name in ("epochs", "packed_epochs")]
        cells = [text, f"{large['rows']:,.0f}", *sizes, *epochs, names["way"](large, wanted=1)]
        assert f"| {' | '.join(cells)} |" in page
        share = f"{64e9 / large['pixels']:.0%}".replace("%", " %")
        assert size == 500e3 or f" {share} " in page
    assert (
        names["way"](names["plan"](3e12, 100e3, rate=500) | {"jpegs": 3e12}, 1)[-8:] == "machines"
    )


FAMILIES = [name for name in dir(keras.applications) if name[0].isupper()]


@each("name", FAMILIES)
def test_the_scale_that_fine_tuning_names_is_that_of_the_family(name):
    table = (TUTORIALS / "fine-tuning.md").read_text("utf-8")
    rows = re.findall(r"^\| `(None|\".+\")` \|.*\| (.+) \|$", table, re.M)
    families = [(scale, re.findall("`(.+?)`", listed)) for scale, listed in rows]
    [scale] = [scale for scale, listed in families if any(fnmatch(name, one) for one in listed)]
    module = import_module(getattr(keras.applications, name).__module__)
    pixels = np.random.default_rng(0).integers(0, 256, (4, 4, 3), np.uint8)
    wanted = module.preprocess_input(pixels.astype("float32"), data_format="channels_last")
    made = np.empty(pixels.shape, np.float32)
    dfgen.Image(size=(4, 4), scale=literal_eval(scale)).finish(pixels, made)
    assert np.abs(made - np.asarray(wanted)).max() < 1e-4


def trained_briefly(build, photographs):
    """Return a function that builds a network, and trains it on the page's own training rows."""

    def substitute(*, weights, **options):
        assert weights == "imagenet"
        df = dfgen.build_manifest(
            photographs / "photos",
            labels=photographs / "labels.csv",
            on="stem=photo",
            id="photo",
            split={"train": 0.67, "val": 0.33},
            stratify="thing",
            group="part",
        )
        image = dfgen.Image(size=options["input_shape"][:2], scale="tf", flip="horizontal")
        train = dfgen.sequences(df, x=image, y="thing", batch_size=16)["train"]
        base = build(weights=None, **options)
        for layer in base.layers:
            if isinstance(layer, keras.layers.BatchNormalization):
                layer.momentum = 0.8
        model = keras.Sequential([base, keras.layers.Dense(6, activation="softmax")])
        model.compile(keras.optimizers.Adam(1e-3), "sparse_categorical_crossentropy")
        model.fit(train, epochs=6, verbose=0)
        return base

    return substitute


@pytest.mark.slow
@pytest.mark.backend
@pytest.mark.timeout(600)
def test_a_head_and_then_the_top_layers_learn_on_weights_trained_briefly_instead_of_imagenets(
    typed, photographs, monkeypatch
):
    build = keras.applications.MobileNetV2
    substitute = trained_briefly(build, photographs)
    monkeypatch.setattr(keras.applications, "MobileNetV2", substitute)
    names = typed("fine-tuning", lambda section: "keras_hub" not in section)
    assert names["head"].epoch == [0, 1, 2, 3, 4] and names["top"].epoch == [5, 6, 7]
    assert names["train"].epoch == 8
    free = [layer.trainable for layer in names["base"].layers]
    assert sum(free) == 30 and all(free[-30:])
    assert names["accuracy"] > 0.5  # a guess has 0.17


@pytest.mark.clients
def test_a_frozen_kerashub_backbone_of_random_weights_trains_a_head(typed, monkeypatch):
    hub = pytest.importorskip("keras_hub")
    keras.utils.set_random_seed(2)
    small = hub.models.ResNetBackbone(
        input_conv_filters=[64],
        input_conv_kernel_sizes=[3],
        stackwise_num_filters=[64],
        stackwise_num_blocks=[1],
        stackwise_num_strides=[1],
        block_type="basic_block",
        image_shape=(96, 96, 3),
    )
    scaled = hub.layers.ImageConverter(scale=[1 / 255] * 3, offset=[-0.5] * 3)
    monkeypatch.setattr(hub.models.Backbone, "from_preset", lambda name: small)
    monkeypatch.setattr(hub.layers.ImageConverter, "from_preset", lambda name: scaled)
    names = typed("fine-tuning", lambda section: "keras_hub" in section)
    measured = names["classifier"].evaluate(names["val"], verbose=0, return_dict=True)
    assert measured["accuracy"] > 0.25 and measured["loss"] < 1.75  # a guess has 0.17 and 1.79
    assert not small.trainable_weights
