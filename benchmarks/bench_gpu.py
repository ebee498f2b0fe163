"""Does a ResNet-50 in bfloat16 on an accelerator wait for loose JPEG files?

Without an accelerator it runs at a tiny size, which shows that it runs and no more.
"""

from importlib.util import find_spec

from bench_model import show, trained
from measure import Findings, finish, in_new_process

from dfgen.bench.headroom import Headroom

BATCH, SIZE, ROUNDS = 128, 224, 5


def main() -> Findings:
    for backend in ("torch", "jax"):
        if find_spec(backend) is None:
            print(f"left out: {backend} (to have it: pip install {backend})")
            continue
        device, result = in_new_process(train, backend, backend=backend)
        print(f"\n{backend} on {device or 'the CPU, 2 batches of 8 images of 64x64'}", end="")
        show(result)
    return finish([])


def train(backend: str) -> tuple[str, Headroom]:
    """Return the accelerator's name, empty where there is none, and the rates."""
    import keras

    keras.mixed_precision.set_global_policy("mixed_bfloat16")
    device = accelerator(backend)
    if device:
        return device, trained("ResNet50", BATCH, SIZE, ROUNDS)
    return device, trained("ResNet50", batch=8, size=64, rounds=1)


def accelerator(backend: str) -> str:
    if backend == "torch":
        import torch

        return torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    import jax

    device = jax.devices()[0]
    return "" if device.platform == "cpu" else str(device.device_kind)


if __name__ == "__main__":
    main()
