"""Writes what scripts/models/make-elastic.mjs and the server read.

  python3 export.py DATA CHECKPOINT TUNED BUILD MODEL
BUILD/weights.bin           the backbone: make-elastic.mjs WEIGHTS writes MODEL/1/model.onnx from it
BUILD/profile/, BUILD/test/ all images of both sets, for measure-elastic.mjs
MODEL/tasks/NAME/           task.json (its accuracy is measured with the graph: measure-elastic.mjs --keep), head.bin, prompts-GAMMA.bin
MODEL/images/               the first 500 test images of each task
A set of images is NAME.bin (uint8, 1024 for each image) and NAME.labels.bin (a byte each).
"""
import argparse
import gzip
import json
import os

import numpy as np
import torch

from model import HEADS, LAYERS, WIDTH
from tasks import NAMES, load
from tune import load_backbone

SHOWN = 500
CLASSES = {
    "fashion": ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"],
    "digits": list("0123456789"),
    "glyphs": list("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
}
# What a right answer in time is worth where a request does not say, and the promise to requests of the task.
DEFAULTS = {
    "fashion": {"utility": 1, "slo_ms": 200},
    "digits": {"utility": 0.3, "slo_ms": 100},
    "glyphs": {"utility": 0.6, "slo_ms": 150},
}


def weights_of(backbone):
    """In the order of weightShapes in src/bench/serving/elastic/elastic-weights.ts; dense matrices as [in, out]."""
    query_scale = torch.ones(3 * WIDTH)
    query_scale[:WIDTH] = (WIDTH // HEADS) ** -0.5
    place = backbone.place[0].clone()
    place[0] += backbone.first[0, 0]
    weights = []
    for stem in (backbone.stem1, backbone.stem2, backbone.stem3):
        weights += [stem.weight, stem.bias]
    weights.append(place)
    for block in backbone.blocks:
        weights += [block.norm1.weight, block.norm1.bias]
        weights += [block.qkv.weight.T * query_scale, block.qkv.bias * query_scale]
        weights += [block.proj.weight.T, block.proj.bias]
        weights += [block.norm2.weight, block.norm2.bias]
        weights += [block.up.weight.T, block.up.bias, block.down.weight.T, block.down.bias]
    return weights + [backbone.norm.weight, backbone.norm.bias]


def write_floats(path, *tensors):
    with open(path, "wb") as file:
        for tensor in tensors:
            file.write(np.ascontiguousarray(tensor.detach().numpy(), "<f4").tobytes())


def write_images(folder, name, images, labels, compressed=False):
    """32 x 32, two pixels of black around."""
    os.makedirs(folder, exist_ok=True)
    pixels = np.pad(images, ((0, 0), (2, 2), (2, 2))).tobytes()
    path = os.path.join(folder, f"{name}.bin")
    with open(path + (".gz" if compressed else ""), "wb") as file:
        file.write(gzip.compress(pixels, 9, mtime=0) if compressed else pixels)
    with open(os.path.join(folder, f"{name}.labels.bin"), "wb") as file:
        file.write(labels.astype(np.uint8).tobytes())


def write_task(folder, tuned, name):
    os.makedirs(folder, exist_ok=True)
    write_floats(os.path.join(folder, "head.bin"), *torch.load(os.path.join(tuned, f"{name}-head.pt")))
    parts = [file[len(name) + 1 : -len(".pt")] for file in os.listdir(tuned) if file.startswith(f"{name}-") and file.endswith(".pt")]
    gammas = sorted(int(part) for part in parts if part.isdigit())
    for gamma in gammas:
        prompts = torch.load(os.path.join(tuned, f"{name}-{gamma}.pt"))
        assert prompts.shape == (LAYERS, gamma, WIDTH)
        write_floats(os.path.join(folder, f"prompts-{gamma}.bin"), prompts)
    task = {"name": name, "model_version": "1", "classes": CLASSES[name], **DEFAULTS[name], "gammas": gammas}
    with open(os.path.join(folder, "task.json"), "w") as file:
        file.write(json.dumps(task, indent=1) + "\n")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("data", "checkpoint", "tuned", "build", "model"):
        arguments.add_argument(name)
    chosen = arguments.parse_args()
    os.makedirs(chosen.build, exist_ok=True)
    backbone, _, _ = load_backbone(chosen.checkpoint)
    write_floats(os.path.join(chosen.build, "weights.bin"), *weights_of(backbone))
    for name, data in zip(NAMES, load(chosen.data)):
        write_task(os.path.join(chosen.model, "tasks", name), chosen.tuned, name)
        write_images(os.path.join(chosen.model, "images"), name, data["test"][:SHOWN], data["test_labels"][:SHOWN], compressed=True)
        for part in ("profile", "test"):
            write_images(os.path.join(chosen.build, part), name, data[part], data[f"{part}_labels"])


if __name__ == "__main__":
    main()
