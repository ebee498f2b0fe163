"""Values of arguments in other libraries, in lower case: the value here, or what to do instead."""

_NUMBERS = "a y of numbers needs no label_mode: leave it out"
_CENTRES = "make corners of centres: x - width / 2, y - height / 2, x + width / 2, y + height / 2"

ELSEWHERE = {
    "label_mode": {
        **dict.fromkeys(("onehot", "one_hot", "one-hot", "softmax"), "categorical"),
        **dict.fromkeys(("sparse", "integer", "class", "index"), "int"),
        "sigmoid": "binary",
        **dict.fromkeys(("none", "false"), "write label_mode=None"),
        **dict.fromkeys(("raw", "other", "regression"), _NUMBERS),
        "input": 'write y=dfgen.Image("path")',
        "multi_output": 'write y={"kind": "kind", "age": "age"}, the names of the outputs first',
        "multilabel": "write y=dfgen.MultiLabel(column), of a column of lists, and leave it out",
        "inferred": "leave label_mode out: the column tells",
    },
    "color_mode": {
        **dict.fromkeys(("gray", "grey", "greyscale", "l", "1", "true"), "grayscale"),
        "3": "rgb",
        "4": "rgba",
        "none": "rgb",
        "color": "rgb",
        "bgr": 'images are RGB: scale="caffe" makes BGR, for models that want it',
    },
    "interpolation": {
        **dict.fromkeys(
            ("bicubic", "cubic", "lanczos", "lanczos3", "lanczos5", "gaussian", "mitchellcubic"),
            'write interpolation="bilinear", which with antialias=True shrinks as well (default)',
        ),
        "linear": "bilinear",
        "box": "area",
        "0": "nearest",
        "1": "bilinear",
        "3": "area",
    },
    "resize": {
        **dict.fromkeys(("squash", "true", "false", "resize", "none"), "stretch"),
        **dict.fromkeys(("fit", "letterbox", "padding", "pad_to_aspect_ratio"), "pad"),
        **dict.fromkeys(("center_crop", "centercrop", "crop_to_aspect_ratio", "fill"), "crop"),
    },
    "crop": {
        **dict.fromkeys(
            ("true", "random_crop", "randomcrop"),
            'write crop="random", and load_size=, a size larger than size= to crop from',
        ),
        **dict.fromkeys(("randomresizedcrop", "random_resized_crop"), "random_resized"),
        **dict.fromkeys(("center_crop", "centercrop"), "center"),
        "false": "write crop=None",
    },
    "flip": {
        **dict.fromkeys(("true", "random", "left_right", "horizontal_flip", "h"), "horizontal"),
        **dict.fromkeys(("up_down", "vertical_flip", "v"), "vertical"),
        "both": "horizontal_and_vertical",
        "false": "write flip=None",
    },
    "dtype": {
        **dict.fromkeys(("float", "float64", "double"), "float32"),
        "half": "float16",
        **dict.fromkeys(("int", "int32", "int64"), "uint8"),
    },
    "dtype of a mask": {
        **dict.fromkeys(("int", "int64", "uint16", "int16", "long"), "int32"),
        **dict.fromkeys(("bool", "int8"), "uint8"),
        **dict.fromkeys(("float", "float64", "float16", "double"), "float32"),
    },
    "format": {
        **dict.fromkeys(("voc", "pascal_voc", "ltrb", "tlbr", "corners"), "xyxy"),
        **dict.fromkeys(("coco", "ltwh", "xyhw"), "xywh"),
        **dict.fromkeys(("albumentations", "xyxyn", "rel_ltrb"), "rel_xyxy"),
        **dict.fromkeys(("yxyx", "rel_yxyx"), "put x before y in each corner"),
        **dict.fromkeys(("yolo", "center_xywh", "cxcywh", "xywhn", "center_xyhw"), _CENTRES),
    },
    "on_error": {
        **dict.fromkeys(("ignore", "warn", "coerce", "drop", "continue", "none", "false"), "skip"),
        **dict.fromkeys(("fail", "true", "strict"), "raise"),
    },
    "bucket_by": {
        **dict.fromkeys(
            ("true", "size", "length", "image_size", "aspect_ratio"),
            'write bucket_by="shape", with image_size=None',
        ),
        "false": "write bucket_by=None",
    },
}
"""Argument -> value in another library -> the value here, or what to do."""
