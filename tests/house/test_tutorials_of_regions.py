"""Tutorials of masks, boxes, sounds and mixed images run as written, and what they train works."""

import cv2
import numpy as np
import pytest
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

import dfgen


def outlined(names):
    options = {"x": names["image"], "y": names["coins"], "batch_size": 16}
    return dfgen.sequences(names["df"], **options)["val"]


@pytest.mark.backend
@pytest.mark.slow
def test_outlines_and_mask_files_train_and_measure_one_u_net(typed):
    names = typed("segment-coins")
    assert names["history"]["val_mean_iou"][-1] > 0.9
    assert names["of_files"]["mean_iou"] > 0.9
    rows = names["rows"]
    assert len(rows) == 96 and rows["loss"].notna().all()
    found = np.stack([cv2.imread(path, cv2.IMREAD_UNCHANGED) for path in rows["y_pred"]])
    drawn = np.concatenate([masks for _, masks in outlined(names)])[..., 0]
    filed = np.concatenate([masks for _, masks in names["val"]])[..., 0]
    assert (drawn == filed).mean() > 0.98
    overlap = ((found == 1) & (drawn == 1)).sum() / ((found == 1) | (drawn == 1)).sum()
    assert overlap > 0.85


@pytest.mark.backend
@pytest.mark.slow
def test_a_detector_finds_coins_with_the_average_precision_of_pycocotools(typed):
    names = typed("detection")
    own = names["average_precision"](names["found"], names["rows"]["boxes"])
    assert own > 0.8
    truth = COCO("demo/photographs/coins.json")
    judge = COCOeval(truth, truth.loadRes("found.json"), "bbox")
    judge.params.imgIds = names["rows"]["id"].tolist()
    judge.evaluate()
    judge.accumulate()
    judge.summarize()
    assert abs(judge.stats[1] - own) < 0.02  # at an IoU of 0.5


@pytest.mark.backend
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Explicitly requested dtype int64")  # of MixUp on JAX
def test_photographs_are_told_apart_after_augmentation_in_three_places(typed):
    names = typed("augmentation-on-the-device")
    assert {*names["accuracy"]} == {"transform", "batch_transform", "layers"}
    assert min(names["accuracy"].values()) > 0.5  # a guess has 0.17
    images, labels = names["cut"][0]
    assert images.dtype == "uint8" and labels.sum(axis=1) == pytest.approx(1)
    assert ((labels > 0).sum(axis=1) == 2).any()
