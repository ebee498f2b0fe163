"""Images of different sizes: padded to the batch's largest, the same for any workers and hosts."""

import keras
import numpy as np
import pandas as pd
import pytest
from messages import message_of
from sized import (
    OPTIONS,
    ROTATED,
    ROWS,
    equal,
    manifest_of,
    padded,
    pixels_of,
    rows_of,
    sequence,
    size_of,
    with_facts,
)

import dfgen
from dfgen.binding.bind import Options, bind
from dfgen.binding.frame_columns import Columns
from dfgen.binding.image_sizes import known_sizes
from dfgen.errors import ArgumentError, DecodeError, ManifestError
from dfgen.samples.transforms import sample_rng


@pytest.fixture
def manifest(sized_folder):
    return manifest_of(sized_folder)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_images_stand_top_left_in_zeros_up_to_the_largest_of_their_batch(manifest, options):
    with sequence(with_facts(manifest), **options) as seq:
        for step in range(len(seq)):
            assert equal(seq[step][0], padded(rows_of(step)))


def test_headers_are_read_where_there_are_no_facts(manifest):
    assert equal(sequence(manifest)[0][0], padded(rows_of(0)))


@pytest.mark.parametrize("fact", ["height", "orientation"])
def test_headers_are_read_of_the_rows_whose_facts_are_missing(manifest, fact):
    some = with_facts(manifest)
    some[fact] = some[fact].astype("Int32").where(some["id"] % 3 != 1)
    seq = sequence(some)
    assert all(equal(seq[step][0], padded(rows_of(step))) for step in range(len(seq)))


def test_a_file_whose_size_nobody_knows_is_the_problem_of_its_own_row(manifest):
    some = with_facts(manifest)
    some["height"] = some["height"].astype("Int32").where(some["id"] % 3 != 1)
    some.loc[19, "path"] = "missing.png"
    image, no_y = dfgen.Image(size=None), Options(label_mode=None)
    assert bind(some, image, options=no_y, on_error="skip").problems.keys() == {19}


@pytest.mark.parametrize("orientation", range(1, 9))
def test_facts_tell_the_size_of_the_upright_image(manifest, orientation):
    facts = manifest[:1].assign(height=3, width=4, orientation=orientation)
    assert known_sizes(Columns(facts)).tolist() == [[3, 4] if orientation < 5 else [4, 3]]


def test_facts_of_a_built_manifest_serve(manifest, sized_folder):
    built = dfgen.build_manifest(sized_folder / "images", pattern="{id:int}.png")
    built["label"] = pd.Categorical(["a"] * len(built))
    assert built["height"].notna().all()
    assert equal(sequence(built)[0][0], padded(rows_of(0)))


def test_a_file_of_another_size_than_its_facts_is_an_error_that_names_the_row(manifest):
    wrong = with_facts(manifest)
    wrong.loc[7, "height"] = 9
    assert message_of(DecodeError, sequence(wrong, shuffle=False).__getitem__, 1) == (
        f"row id=7, path={wrong['path'][7]!r}: the image has 5 x 4 pixels (height x width, "
        "upright), but its facts say 9 x 4: was it changed since? Build the manifest anew, or "
        "leave out its columns width, height and orientation"
    )


def test_an_orientation_that_is_not_in_the_facts_is_found_out(manifest):
    with pytest.raises(DecodeError, match=r"row id=4, .* 7 x 8 pixels .* facts say 8 x 7"):
        sequence(with_facts(manifest, orientation=1), shuffle=False)[1]


def test_files_that_are_missing_are_named_before_training_or_skipped(manifest):
    manifest.loc[2, "path"] = "missing.png"
    assert message_of(ManifestError, sequence, manifest) == (
        "1 of 30 rows have a problem, by the headers of their files:\n"
        "  row id=2, path='missing.png': the file does not exist\n"
        'Leave them out, or train on the others with on_error="skip"'
    )
    seq = sequence(manifest, on_error="skip", shuffle=False, batch_size=3)
    x, _, weights = seq[0]
    assert x.shape == padded([0, 1]).repeat(2, 0)[:3].shape
    assert not x[2].any()
    assert weights.tolist() == [1.5, 1.5, 0]
    assert seq.problems["id"].tolist() == [2]


def test_a_batch_without_any_image_is_a_pixel_high_and_wide(manifest):
    manifest.loc[0, "path"] = "missing.png"
    seq = sequence(manifest, on_error="skip", shuffle=False, batch_size=1)
    assert seq[0][0].shape == (1, 1, 1, 3)


class TestExtra:
    def test_channels_first(self, manifest):
        image = dfgen.Image("path", size=None, extra="padding_mask")
        keras.config.set_image_data_format("channels_first")
        try:
            x = sequence(manifest, image)[0][0]
            sizes = sequence(manifest, dfgen.Image("path", size=None, extra="sizes"))[0][0]["sizes"]
        finally:
            keras.config.set_image_data_format("channels_last")
        assert equal(np.moveaxis(x["images"], 1, -1), padded(rows_of(0)))
        assert equal(np.moveaxis(x["padding_mask"], 1, -1), padded(rows_of(0))[..., :1] > 0)
        assert equal(sizes, np.array([size_of(row) for row in rows_of(0)], np.int32))

    def test_padding_mask(self, manifest):
        image = dfgen.Image("path", size=None, extra="padding_mask")
        for options in OPTIONS:
            with sequence(manifest, {"photo": image}, **options) as seq:
                x = seq[2][0]["photo"]
                assert equal(x["padding_mask"], padded(rows_of(2))[..., :1] > 0)
                assert equal(x["images"], padded(rows_of(2)))

    def test_a_transform_gets_and_gives_back_images_alone(self, manifest):
        def check(sample, rng):
            assert list(sample) == ["image", "label"]
            return sample

        image = dfgen.Image("path", size=None, extra="sizes")
        assert sequence(manifest, image, transform=check)[0][0]["sizes"].shape == (4, 2)

    def test_skipped_rows_have_no_size(self, manifest):
        manifest.loc[0, "path"] = "missing.png"
        image = dfgen.Image("path", size=None, extra="sizes")
        seq = sequence(manifest, image, on_error="skip", shuffle=False)
        assert seq[0][0]["sizes"][:2].tolist() == [[0, 0], [*size_of(1)]]


@pytest.mark.parametrize(
    ("options", "make"),
    [
        ({"scale": "0..1"}, lambda row: pixels_of(row) * np.float32(1 / 255)),
        ({"scale": "-1..1"}, lambda row: pixels_of(row) * np.float32(1 / 127.5) - np.float32(1)),
        ({"dtype": "float16"}, lambda row: pixels_of(row).astype(np.float16)),
    ],
    ids=["0..1", "-1..1", "float16"],
)
def test_pixels_are_scaled_and_the_padding_stays_0(manifest, options, make):
    seq = sequence(manifest, dfgen.Image("path", size=None, **options))
    assert equal(seq[1][0], padded(rows_of(1), make))


def test_standardize_counts_the_image_alone(manifest):
    x = sequence(manifest, dfgen.Image("path", size=None, scale="standardize"))[1][0]
    for place, row in enumerate(rows_of(1)):
        height, width = size_of(row)
        own = x[place, :height, :width]
        assert np.allclose([own.mean(), own.std()], [0, 1], atol=1e-5)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_transform_sees_the_image_in_its_own_size(manifest, options):
    def mirrored(sample, rng):
        return sample | {"image": sample["image"][::-1] + np.uint8(rng.integers(100))}

    def expected(row):
        number = sample_rng(0, 0, row).integers(100)
        return pixels_of(row)[::-1] + np.uint8(number)

    with sequence(manifest, transform=mirrored, **options) as seq:
        for step in range(len(seq)):
            assert equal(seq[step][0], padded(rows_of(step), expected))


def test_flips_leave_the_padding_where_it_is(manifest):
    x = sequence(manifest, dfgen.Image("path", size=None, flip="horizontal"))[0][0]
    flips = 0
    for place, row in enumerate(rows_of(0)):
        height, width = size_of(row)
        own = x[place, :height, :width]
        assert np.array_equal(own[:, ::-1], pixels_of(row)) or np.array_equal(own, pixels_of(row))
        flips += own[0, 0, 2] > 1
        assert not x[place, height:].any() and not x[place, :, width:].any()
    assert flips


@pytest.mark.parametrize("palette", [None, {row: row for row in range(ROWS)}], ids=str)
def test_masks_are_padded_with_their_fill_value(manifest, palette):
    mask = dfgen.Mask("mask", fill_value=255, palette=palette)
    seq = sequence(manifest, dfgen.Image("path", size=None), y=mask)
    x, y = seq[3]
    made = padded(rows_of(3), lambda row: np.full((*size_of(row), 3), row, np.uint8), 255)
    assert equal(y, made[..., :1])
    assert equal(x, padded(rows_of(3)))


def test_boxes_keep_their_place(manifest):
    manifest["boxes"] = [[[0.0, 0.0, 2.0, 3.0]]] * ROWS
    manifest["labels"] = [[1]] * ROWS
    image = dfgen.Image("path", size=None)
    y = sequence(manifest, image, y=dfgen.Boxes("boxes", labels="labels", max_boxes=2))[0][1]
    assert y["boxes"][:, 0].tolist() == [[0, 0, 2, 3]] * 4
    relative = dfgen.Boxes("boxes", labels="labels", format="rel_xyxy")
    assert message_of(ArgumentError, sequence, manifest, image, y=relative) == (
        f"{relative!r}: with size=None the size that boxes would be relative to differs by batch. "
        'Take format="xyxy", or give the image a size'
    )


def test_by_hand_an_image_and_its_mask_have_their_own_size(manifest):
    image = dfgen.Image("path", size=None)
    assert equal(image(manifest.iloc[ROTATED]), pixels_of(ROTATED))
    assert dfgen.Mask("mask", like=image)(manifest.iloc[3]).shape == (*size_of(3), 1)


def test_hosts_pad_to_the_largest_of_the_global_batch(manifest):
    hosts = [sequence(manifest, shard=(index, 2)) for index in range(2)]
    for step in range(ROWS // 4):
        rows = rows_of(step)
        for host, own in zip(hosts, (rows[:2], rows[2:]), strict=True):
            assert equal(host[step][0], padded(own, largest=rows))


def test_what_has_no_use_is_refused():
    for name, value in {"resize": "pad", "load_size": (8, 8), "interpolation": "nearest"}.items():
        assert message_of(ArgumentError, dfgen.Image, "path", size=None, **{name: value}) == (
            f"size=None leaves every image as large as it is, so there is no use for "
            f"{name}={value!r}: leave it out, or give a size"
        )
    assert message_of(ArgumentError, dfgen.Image, "path", extra="sizes") == (
        "extra='sizes' is for images of different sizes, size=None: with size=(256, 256) there is "
        "no padding to tell"
    )


def test_memory_is_bounded_by_the_largest_batch_that_could_be(manifest):
    largest = 4 * (7 * 10 * 3 + 4)
    assert sequence(manifest, limits=dfgen.Limits(memory=3 * largest + 1))._loader.depth == 3
    with pytest.raises(ArgumentError, match=f"one batch takes {largest} bytes"):
        sequence(manifest, limits=dfgen.Limits(memory=largest - 1))


def test_the_repr_shows_what_differs_by_batch(manifest):
    assert "image ?x?x3 uint8" in repr(sequence(manifest))


@pytest.mark.backend
class TestModel:
    def model(self):
        model = keras.Sequential(
            [
                keras.Input((None, None, 3)),
                keras.layers.Rescaling(1 / 255),
                keras.layers.GlobalAveragePooling2D(),
                keras.layers.Dense(2),
            ]
        )
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss)
        return model

    @pytest.mark.filterwarnings("ignore:validation_data has the")
    def test_trains_evaluates_and_predicts(self, manifest):
        model = self.model()
        val = sequence(manifest, shuffle=False)
        history = model.fit(sequence(manifest), validation_data=val, epochs=2, verbose=0).history
        assert np.isfinite(history["loss"] + history["val_loss"]).all()
        found = model.predict(val, verbose=0)
        single = [model.predict(padded(range(i, i + 4))[:1], verbose=0)[0] for i in (0, 4)]
        assert np.allclose(found[[0, 4]], single, atol=1e-5)

    @pytest.mark.parametrize("extra", ["sizes", "padding_mask"])
    def test_a_model_that_takes_what_tells_the_image_from_the_padding(self, manifest, extra):
        images = keras.Input((None, None, 3), name="images")
        total = keras.ops.sum(keras.ops.cast(images, "float32"), axis=(1, 2))
        if extra == "sizes":
            told = keras.Input((2,), dtype="int32", name=extra)
            area = keras.ops.prod(told, axis=1, keepdims=True)
        else:
            told = keras.Input((None, None, 1), dtype="bool", name=extra)
            area = keras.ops.sum(keras.ops.cast(told, "int32"), axis=(1, 2))
        means = total / keras.ops.cast(area, "float32")
        model = keras.Model({"images": images, extra: told}, means)
        image = dfgen.Image("path", size=None, extra=extra)
        found = model.predict(sequence(manifest, image, shuffle=False), verbose=0)
        assert np.allclose(found[:, 0], 100 + np.arange(ROWS))
