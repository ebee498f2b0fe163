"""Libraries around Keras, as their users would call them: `make test-clients` installs them."""

import cv2
import keras
import numpy as np
import pandas as pd
import pytest

import dfgen
from dfgen.explore import mistakes

ROWS, SIDE, BATCH = 24, 32, 8

# of Keras, over every data set that is not its own; and of libraries over NumPy 2.4
pytestmark = [
    pytest.mark.clients,
    pytest.mark.filterwarnings("ignore:`shuffle=True` was passed"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:validation_data has the"),
]


@pytest.fixture(scope="module")
def frame(tmp_path_factory):
    """Images that are as bright as their row, masks of a left and a right half, and boxes."""
    folder = tmp_path_factory.mktemp("clients")
    rows = []
    for row in range(ROWS):
        mask = np.repeat(np.arange(SIDE) >= SIDE // 2, SIDE).reshape(SIDE, SIDE).T
        cv2.imwrite(f"{folder}/{row}.png", np.full((SIDE, SIDE, 3), 10 * row, np.uint8))
        cv2.imwrite(f"{folder}/{row}_mask.png", mask.astype(np.uint8))
        boxes = [[2.0, 2.0, 20.0, 20.0], [4.0, 4.0, 30.0, 28.0]][: 1 + row % 2]
        rows.append({
            "id": row, "path": f"{folder}/{row}.png", "mask": f"{folder}/{row}_mask.png",
            "kind": ("cat", "dog", "eel")[row % 3], "boxes": boxes, "labels": [0, 1][: 1 + row % 2],
        })  # fmt: skip
    return pd.DataFrame(rows).astype({"kind": "category"})


def sequence(frame, y="kind", **options):
    x = dfgen.Image("path", size=(SIDE, SIDE))
    return dfgen.Sequence(frame, x, y, batch_size=BATCH, **options)


def small_model(units=4):
    layers = keras.layers
    model = keras.Sequential([
        layers.Rescaling(1 / 255), layers.Flatten(), layers.Dense(units, "relu"),
        layers.Dense(3, "softmax"),
    ])  # fmt: skip
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"])
    return model


# KerasTuner


def search(frame, folder, trials=3):
    """Search with both callbacks of dfgen, which KerasTuner copies for every trial."""
    tuner = pytest.importorskip("keras_tuner")
    found = tuner.RandomSearch(
        lambda hp: small_model(hp.Choice("units", [2, 4, 8, 16])),
        objective="val_accuracy", max_trials=trials, seed=0, overwrite=True,
        directory=folder, project_name="search",
    )  # fmt: skip
    train = sequence(frame)
    callbacks = [
        dfgen.InputMonitor(),
        dfgen.BackupAndRestore(f"{folder}/backup", train, save_freq=1),
    ]
    val = sequence(frame, shuffle=False)
    found.search(train, validation_data=val, epochs=2, callbacks=callbacks, verbose=0)
    return found, train


def test_keras_tuner_runs_trials_on_one_sequence(frame, tmp_path):
    tuner, train = search(frame, tmp_path)
    trials = tuner.oracle.trials.values()
    assert [trial.status for trial in trials] == ["COMPLETED"] * 3
    assert train.epoch == 6 and train.receipt.rows == ROWS
    assert {"input_wait", "images_per_second"} <= set(next(iter(trials)).metrics.metrics)


# KerasHub


@pytest.fixture(scope="module")
def hub():
    return pytest.importorskip("keras_hub")


def resnet(hub, blocks=2):
    return hub.models.ResNetBackbone(
        input_conv_filters=[64], input_conv_kernel_sizes=[3], stackwise_num_filters=[64] * blocks,
        stackwise_num_blocks=[1] * blocks, stackwise_num_strides=[1, 2, 2][:blocks],
        block_type="basic_block", image_shape=(SIDE, SIDE, 3),
    )  # fmt: skip


def trained(model, train, val, epochs=2):
    """Fit a model of KerasHub on the data sets of two Sequences."""
    history = model.fit(
        train.get_tf_dataset(), validation_data=val.get_tf_dataset(), epochs=epochs, verbose=0
    ).history
    assert np.isfinite(history["loss"]).all() and np.isfinite(history["val_loss"]).all()
    # who reads a tf.data.Dataset is not known: on JAX and torch Keras reads one to build the model
    assert epochs <= train.epoch <= epochs + (keras.backend.backend() != "tensorflow")
    assert train.receipt.rows == ROWS
    return history


def test_keras_hub_classifier(frame, hub):
    converter = hub.layers.ImageConverter(image_size=(SIDE, SIDE), scale=1 / 255)
    model = hub.models.ImageClassifier(
        backbone=resnet(hub),
        preprocessor=hub.models.ImageClassifierPreprocessor(converter),
        num_classes=3,
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    trained(model, sequence(frame), sequence(frame, shuffle=False))


def test_keras_hub_segmenter(frame, hub):
    encoder = hub.models.MiTBackbone(
        layerwise_depths=[1, 1], num_layers=2, layerwise_num_heads=[1, 2],
        layerwise_sr_ratios=[4, 2], max_drop_path_rate=0.1, layerwise_patch_sizes=[7, 3],
        layerwise_strides=[4, 2], hidden_dims=[4, 8], image_shape=(SIDE, SIDE, 3),
    )  # fmt: skip
    backbone = hub.models.SegFormerBackbone(image_encoder=encoder, projection_filters=8)
    model = hub.models.SegFormerImageSegmenter(backbone=backbone, num_classes=2)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    trained(model, sequence(frame, dfgen.Mask("mask")), sequence(frame, dfgen.Mask("mask")))


def test_keras_hub_detector(frame, hub):
    backbone = hub.models.RetinaNetBackbone(
        image_encoder=resnet(hub, 3), min_level=3, max_level=4, use_p5=False
    )
    model = hub.models.RetinaNetObjectDetector(
        backbone=backbone, num_classes=2, bounding_box_format="xyxy", pre_logits_num_conv_layers=1
    )
    model.compile()
    boxes = dfgen.Boxes(max_items=2)
    trained(model, sequence(frame, boxes), sequence(frame, boxes))


def test_keras_hub_text_classifier(frame, hub):
    words = ["[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "cat", "dog", "eel"]
    tokens = hub.models.BertTokenizer(vocabulary=words)
    backbone = hub.models.BertBackbone(
        vocabulary_size=8, num_layers=1, num_heads=1, hidden_dim=4, intermediate_dim=4,
        max_sequence_length=4,
    )  # fmt: skip
    model = hub.models.BertTextClassifier(
        backbone=backbone,
        preprocessor=hub.models.BertTextClassifierPreprocessor(tokens, sequence_length=4),
        num_classes=3,
    )
    text = frame.assign(words=frame.kind.astype(str))
    found = dfgen.predict_frame(
        model, dfgen.Sequence(text, dfgen.Text("words"), "kind", batch_size=BATCH)
    )
    assert mistakes(found).confusion.to_numpy().sum() == ROWS


# scikit-learn


@pytest.mark.parametrize("splitter", ["KFold", "StratifiedKFold", "StratifiedGroupKFold"])
def test_splitters_of_scikit_learn(frame, splitter):
    selection = pytest.importorskip("sklearn.model_selection")
    seen, groups = [], np.arange(ROWS) // 3
    folds = getattr(selection, splitter)(3, shuffle=True, random_state=0)
    given = {"KFold": (), "StratifiedKFold": (frame["kind"],)}
    for train, val in folds.split(frame, *given.get(splitter, (frame["kind"], groups))):
        one, other = (sequence(frame.iloc[rows], shuffle=False) for rows in (train, val))
        assert one.class_names == other.class_names == ["cat", "dog", "eel"]
        x, y = (np.concatenate(arrays) for arrays in zip(*other, strict=True))
        assert (np.asarray(x)[:, 0, 0, 0] // 10).tolist() == val.tolist()
        assert np.asarray(y).tolist() == (val % 3).tolist()
        seen += val.tolist()
    assert sorted(seen) == list(range(ROWS))


# TensorBoard


def test_tensorboard_gets_what_the_monitor_logs(frame, tmp_path):
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    board = keras.callbacks.TensorBoard(tmp_path, write_graph=False)
    callbacks = [dfgen.InputMonitor(), board]  # the monitor first: it adds to the logs
    val = sequence(frame, shuffle=False)
    small_model().fit(
        sequence(frame), validation_data=val, epochs=2, verbose=0, callbacks=callbacks
    )
    events = accumulator.EventAccumulator(str(tmp_path / "train")).Reload()
    assert {"epoch_loss", "epoch_input_wait"} <= set(events.Tags()["tensors"])
